//! `hdfs://` and `viewfs://` for TensorFlow 2.12 and newer, without a JVM.
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
//! | [`filesystem`] | operations on paths: list, stat, rename, delete |
//! | [`open_files`] | operations on open files |
//! | [`reader`], [`writer`] | what is behind an open file |
//! | [`closing`], [`unconfirmed`] | how a writer closes its file, and what it keeps to repeat it |
//! | [`calls`] | calls with a time limit, repeated if NameNodes were lost |
//! | [`cluster`] | the clients and threads of this process, and of forked ones |
//! | [`configuration`] | which NameNodes a URL means |
//! | [`failure`] | errors of HDFS as TensorFlow's codes, in words |
//! | [`location`] | URLs |

mod calls;
mod closing;
mod cluster;
mod configuration;
mod failure;
mod filesystem;
mod location;
mod open_files;
mod reader;
mod registration;
mod tensorflow;
mod unconfirmed;
mod writer;
