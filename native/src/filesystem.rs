//! What TensorFlow calls for paths: each function parses its arguments, calls HDFS and reports.

use std::ffi::{c_char, c_int};
use std::time::Instant;

use hdfs_native::client::FileStatus;
use hdfs_native::{Client, HdfsError};

use crate::calls::{Try, timeout};
use crate::cluster::clusters;
use crate::failure::{Code, Failure};
use crate::location::Location;
use crate::open_files::{
    new_appendable_file, new_random_access_file, new_read_only_memory_region_from_file,
    new_writable_file,
};
use crate::tensorflow::{
    TF_FileStatistics, TF_Filesystem, TF_FilesystemOps, TF_Status, give_text, give_texts, report,
    text,
};

const NEW_DIRECTORY: u32 = 0o755;

pub const FILESYSTEM_OPS: TF_FilesystemOps = TF_FilesystemOps {
    init,
    cleanup,
    new_random_access_file,
    new_writable_file,
    new_appendable_file,
    new_read_only_memory_region_from_file,
    create_dir,
    recursively_create_dir,
    delete_file,
    delete_dir,
    delete_recursively,
    rename_file,
    copy_file: None,
    path_exists,
    paths_exist: None,
    stat,
    is_directory,
    get_file_size,
    translate_name,
    get_children,
};

extern "C" fn init(filesystem: *mut TF_Filesystem, status: *mut TF_Status) {
    report(status, (), || {
        // SAFETY: TensorFlow passes its own structure.
        unsafe { (*filesystem).plugin_filesystem = std::ptr::null_mut() };
        Ok(())
    });
}

extern "C" fn cleanup(_filesystem: *mut TF_Filesystem) {}

pub fn location(path: *const c_char) -> Result<Location, Failure> {
    Location::parse(&text(path)?)
}

pub fn is_a(location: &Location, what: &str) -> Failure {
    Failure::new(
        Code::FailedPrecondition,
        format!("{location}: it is {what}"),
    )
}

/// What HDFS knows of a path.
///
/// A path below a file is told as one that does not exist, or as an exception.
fn find(location: &Location) -> Result<FileStatus, Failure> {
    let path = &location.path;
    clusters()?.call(location, |Try { client, .. }| async move {
        client.get_file_info(path).await
    })
}

pub fn find_file(location: &Location) -> Result<FileStatus, Failure> {
    let found = find(location)?;
    if found.isdir {
        Err(is_a(location, "a directory"))
    } else {
        Ok(found)
    }
}

/// Check that the parent of a path is a directory: HDFS tells it in several ways.
pub fn find_parent(location: &Location) -> Result<(), Failure> {
    if location.is_root() {
        return Err(is_a(location, "the root directory"));
    }
    let parent = location.parent();
    if find(&parent)?.isdir {
        Ok(())
    } else {
        Err(is_a(&parent, "not a directory"))
    }
}

extern "C" fn create_dir(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    status: *mut TF_Status,
) {
    report(status, (), || {
        let location = location(path)?;
        if find_optional(&location)?.is_some() {
            return Err(Failure::new(
                Code::AlreadyExists,
                format!("{location}: it exists already"),
            ));
        }
        find_parent(&location)?;
        make_directories(&location)
    });
}

extern "C" fn recursively_create_dir(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    status: *mut TF_Status,
) {
    report(status, (), || {
        let location = location(path)?;
        make_directories(&location).map_err(|failure| match failure.code {
            Code::AlreadyExists => is_a(&location, "not a directory"),
            _ => failure,
        })
    });
}

fn make_directories(location: &Location) -> Result<(), Failure> {
    let path = &location.path;
    clusters()?.call(location, |Try { client, .. }| async move {
        client.mkdirs(path, NEW_DIRECTORY, true).await
    })
}

fn find_optional(location: &Location) -> Result<Option<FileStatus>, Failure> {
    match find(location) {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.code == Code::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

extern "C" fn delete_file(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    status: *mut TF_Status,
) {
    report(status, (), || {
        let location = location(path)?;
        find_file(&location)?;
        delete(&location, false)
    });
}

extern "C" fn delete_dir(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    status: *mut TF_Status,
) {
    report(status, (), || {
        let location = location(path)?;
        if !find(&location)?.isdir {
            return Err(is_a(&location, "not a directory"));
        }
        if !children(&location)?.is_empty() {
            return Err(is_a(&location, "a directory that is not empty"));
        }
        delete(&location, false)
    });
}

extern "C" fn delete_recursively(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    undeleted_files: *mut u64,
    undeleted_directories: *mut u64,
    status: *mut TF_Status,
) {
    // SAFETY: TensorFlow passes places for both numbers.
    unsafe {
        *undeleted_files = 0;
        *undeleted_directories = 1;
    }
    report(status, (), || {
        let location = location(path)?;
        find(&location)?;
        delete(&location, true)?;
        // SAFETY: as above.
        unsafe { *undeleted_directories = 0 };
        Ok(())
    });
}

fn delete(location: &Location, recursively: bool) -> Result<(), Failure> {
    if location.is_root() {
        return Err(is_a(location, "the root directory, which stays"));
    }
    let path = &location.path;
    let gone = clusters()?.call(
        location,
        |Try {
             client,
             is_repeated,
         }| async move {
            // What the first try has deleted is not there for the second.
            Ok(client.delete(path, recursively).await? || is_repeated)
        },
    )?;
    if gone {
        Ok(())
    } else {
        Err(Failure::new(
            Code::NotFound,
            format!("{location}: no such file or directory"),
        ))
    }
}

extern "C" fn rename_file(
    _filesystem: *const TF_Filesystem,
    source: *const c_char,
    target: *const c_char,
    status: *mut TF_Status,
) {
    report(status, (), || {
        let (source, target) = (location(source)?, location(target)?);
        let configuration = &clusters()?.configuration;
        if configuration.cluster(&source)? != configuration.cluster(&target)? {
            return Err(Failure::new(
                Code::FailedPrecondition,
                format!("{source} cannot be renamed to {target}: another cluster"),
            ));
        }
        let (from, to) = (&source.path, &target.path);
        clusters()?
            .call(
                &source,
                |Try {
                     client,
                     is_repeated,
                 }| async move {
                    let renamed = client.rename(from, to, true).await;
                    if is_repeated && renamed.is_err() && has_moved(&client, from, to).await {
                        return Ok(());
                    }
                    renamed
                },
            )
            .map_err(|failure| rename_failure(failure, &source, &target))
    });
}

/// Whether an earlier try of a rename, whose answer was lost, has been executed.
async fn has_moved(client: &Client, from: &str, to: &str) -> bool {
    let source = client.get_file_info(from).await;
    matches!(source, Err(HdfsError::FileNotFound(_))) && client.get_file_info(to).await.is_ok()
}

/// Why a rename failed, where the NameNode's exception says it in words only.
fn rename_failure(failure: Failure, source: &Location, target: &Location) -> Failure {
    if failure.is_passing() || failure.is_final() {
        return failure;
    }
    if let Err(known) = find(source) {
        return known;
    }
    if let Err(known) = find_parent(target) {
        return known;
    }
    match find(target) {
        Ok(found) if found.isdir => is_a(target, "a directory"),
        _ => failure,
    }
}

extern "C" fn path_exists(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    status: *mut TF_Status,
) {
    report(status, (), || find(&location(path)?).map(|_| ()));
}

extern "C" fn stat(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    statistics: *mut TF_FileStatistics,
    status: *mut TF_Status,
) {
    report(status, (), || {
        let found = find(&location(path)?)?;
        // SAFETY: TensorFlow passes its own structure.
        unsafe {
            *statistics = TF_FileStatistics {
                length: found.length as i64,
                mtime_nsec: (found.modification_time as i64).saturating_mul(1_000_000),
                is_directory: found.isdir,
            };
        }
        Ok(())
    });
}

extern "C" fn is_directory(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    status: *mut TF_Status,
) -> bool {
    report(status, false, || {
        let location = location(path)?;
        if find(&location)?.isdir {
            Ok(true)
        } else {
            Err(is_a(&location, "not a directory"))
        }
    })
}

extern "C" fn get_file_size(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    status: *mut TF_Status,
) -> i64 {
    report(
        status,
        -1,
        || Ok(find_file(&location(path)?)?.length as i64),
    )
}

/// The same URL, cleaned. TensorFlow's own way would drop the cluster's name.
extern "C" fn translate_name(_filesystem: *const TF_Filesystem, uri: *const c_char) -> *mut c_char {
    // SAFETY: TensorFlow passes a C string.
    let given = unsafe { std::ffi::CStr::from_ptr(uri) }.to_string_lossy();
    match Location::parse(&given) {
        Ok(location) => give_text(&location.to_string()),
        // The operation that is called with it tells what is wrong.
        Err(_) => give_text(&given),
    }
}

extern "C" fn get_children(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    entries: *mut *mut *mut c_char,
    status: *mut TF_Status,
) -> c_int {
    report(status, -1, || {
        let location = location(path)?;
        if !find(&location)?.isdir {
            return Err(is_a(&location, "not a directory"));
        }
        Ok(give_texts(&children(&location)?, entries))
    })
}

/// The names in a directory. The time limit is for each piece of a long list.
fn children(location: &Location) -> Result<Vec<String>, Failure> {
    const PIECE: usize = 1000;
    let clusters = clusters()?;
    let path = &location.path;
    let (listing, first) = clusters.call(location, |Try { client, .. }| async move {
        let listing = client.list_status_iter(path, false);
        let first = listing.next().await.transpose()?;
        Ok((listing, first))
    })?;
    let mut names = Vec::new();
    let mut piece = Vec::from_iter(first);
    while !piece.is_empty() {
        let name = |status: FileStatus| status.path.rsplit('/').next().map(str::to_owned);
        names.extend(piece.into_iter().filter_map(name));
        piece = clusters.transfer(Instant::now() + timeout(), location, async {
            let mut piece = Vec::with_capacity(PIECE);
            while piece.len() < PIECE
                && let Some(status) = listing.next().await.transpose()?
            {
                piece.push(status);
            }
            Ok(piece)
        })?;
    }
    Ok(names)
}
