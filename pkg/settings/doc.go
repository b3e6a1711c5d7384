// Package settings reads a file, the environment and flags into one checked
// value.
//
// [All] is the only table of settings: the command line's help, the sample
// file and the reference page are made from it. A setting called
// redis_pool_size is redis_pool_size in the file, RATELIMITD_REDIS_POOL_SIZE
// in the environment and --redis-pool-size on the command line; a flag wins
// over the environment, which wins over the file, which wins over the default.
//
// Nothing is guessed: an unknown name or a value that is not allowed stops
// [Load] with an [ErrorList] that holds every fault found, where it is and
// what is allowed there.
package settings
