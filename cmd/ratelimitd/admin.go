package main

// maxAdminConnections is how many clients of the admin pages there may be.
const maxAdminConnections = 64
