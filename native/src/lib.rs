//! `hdfs://` and `viewfs://` for TensorFlow 2.15 and newer, without a JVM.
//!
//! TensorFlow loads this library when it is imported, if the variable
//! `TF_PLUGGABLE_DEVICE_LIBRARY_PATH` names its directory. It then registers
//! itself as a file system ([`registration`]); nothing of TensorFlow is linked.
//! HDFS is reached through the crate hdfs-native.
//!
//! | module | what is in it |
//! |---|---|
//! | [`registration`] | registers the schemes when the library is loaded |
//! | [`tensorflow`] | TensorFlow's C interface: structures, status codes |
//! | [`filesystem`] | operations on paths: list, stat, rename, delete, open |
//! | [`reader`], [`writer`] | open files |
//! | [`cluster`] | the connections of this process, its threads, time limits |
//! | [`failure`] | errors of HDFS as TensorFlow's codes, in words |
//! | [`location`] | URLs |

mod cluster;
mod failure;
mod filesystem;
mod location;
mod reader;
mod registration;
mod tensorflow;
mod writer;
