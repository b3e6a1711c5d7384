// Package reload watches the policy directory and hands every good set of
// rules on.
//
// A change is one of content, however it comes about: an edit in place, a
// rename, another target of a link such as ConfigMap's ..data, a directory
// that appears. It is looked for when the file system tells of an event, and
// once a second in any case, for not every file system tells. What is found
// must stay the same for a moment before it is taken, so that a file which is
// still being written is not.
//
// Policies that stand in no file are offered to the loader, by a control plane
// say. The rules are made of both together.
//
// What does not compile changes nothing: the last good rules stay in
// force, and [Loader.Status], a metric and the log say what is wrong until it
// is mended.
package reload
