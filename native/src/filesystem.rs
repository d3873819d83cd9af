//! What TensorFlow calls: each function parses its arguments, calls HDFS and reports.

use std::ffi::{c_char, c_int, c_void};

use hdfs_native::client::FileStatus;

use crate::cluster::clusters;
use crate::failure::{Code, Failure};
use crate::location::Location;
use crate::reader::Reader;
use crate::tensorflow::{
    TF_File, TF_FileStatistics, TF_Filesystem, TF_FilesystemOps, TF_RandomAccessFileOps,
    TF_ReadOnlyMemoryRegion, TF_ReadOnlyMemoryRegionOps, TF_Status, TF_WritableFileOps, give_text,
    give_texts, report, text,
};
use crate::writer::Writer;

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

pub const RANDOM_ACCESS_FILE_OPS: TF_RandomAccessFileOps = TF_RandomAccessFileOps {
    cleanup: drop_reader,
    read,
};

pub const WRITABLE_FILE_OPS: TF_WritableFileOps = TF_WritableFileOps {
    cleanup: drop_writer,
    append,
    tell,
    flush: sync,
    sync,
    close: sync,
};

pub const READ_ONLY_MEMORY_REGION_OPS: TF_ReadOnlyMemoryRegionOps = TF_ReadOnlyMemoryRegionOps {
    cleanup: drop_region,
    data: region_data,
    length: region_length,
};

extern "C" fn init(filesystem: *mut TF_Filesystem, status: *mut TF_Status) {
    report(status, (), || {
        // SAFETY: TensorFlow passes its own structure.
        unsafe { (*filesystem).plugin_filesystem = std::ptr::null_mut() };
        Ok(())
    });
}

extern "C" fn cleanup(_filesystem: *mut TF_Filesystem) {}

fn location(path: *const c_char) -> Result<Location, Failure> {
    Location::parse(&text(path)?)
}

fn is_a(location: &Location, what: &str) -> Failure {
    Failure::new(
        Code::FailedPrecondition,
        format!("{location}: it is {what}"),
    )
}

/// What HDFS knows of a path.
///
/// A path below a file is told as one that does not exist, or as an exception.
fn find(location: &Location) -> Result<FileStatus, Failure> {
    let path = location.path.clone();
    clusters()?.call(location, |client| async move {
        client.get_file_info(&path).await
    })
}

fn find_file(location: &Location) -> Result<FileStatus, Failure> {
    let found = find(location)?;
    if found.isdir {
        Err(is_a(location, "a directory"))
    } else {
        Ok(found)
    }
}

/// Check that the parent of a path is a directory: HDFS tells it in several ways.
fn find_parent(location: &Location) -> Result<(), Failure> {
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

// ---- open files

fn give<T>(file: *mut TF_File, value: T) {
    // SAFETY: TensorFlow passes its own structure; the matching cleanup takes the box back.
    unsafe { (*file).plugin_file = Box::into_raw(Box::new(value)).cast() };
}

fn ours<'a, T>(file: *const TF_File) -> &'a T {
    // SAFETY: TensorFlow passes what `give` has put there, before its cleanup.
    unsafe { &*(*file).plugin_file.cast::<T>() }
}

fn take_back<T>(pointer: *mut c_void) {
    if !pointer.is_null() {
        // SAFETY: it came from a box of this type, and TensorFlow does not use it any more.
        drop(unsafe { Box::from_raw(pointer.cast::<T>()) });
    }
}

extern "C" fn new_random_access_file(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    file: *mut TF_File,
    status: *mut TF_Status,
) {
    report(status, (), || {
        let location = location(path)?;
        give(file, open(location)?);
        Ok(())
    });
}

fn open(location: Location) -> Result<Reader, Failure> {
    Reader::open(location.clone()).map_err(|failure| match find_file(&location) {
        // HDFS tells that a path is a directory in the words of its exception only.
        Err(known) if known.code == Code::FailedPrecondition => known,
        _ => failure,
    })
}

extern "C" fn drop_reader(file: *mut TF_File) {
    // SAFETY: TensorFlow passes its own structure.
    take_back::<Reader>(unsafe { (*file).plugin_file });
}

extern "C" fn read(
    file: *const TF_File,
    offset: u64,
    count: usize,
    buffer: *mut c_char,
    status: *mut TF_Status,
) -> i64 {
    let mut done = -1;
    report(status, (), || {
        let buffer = if count == 0 {
            &mut []
        } else {
            // SAFETY: TensorFlow has room for `count` bytes there.
            unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), count) }
        };
        let read = ours::<Reader>(file).read(offset, buffer)?;
        done = read as i64;
        if read < count {
            return Err(Failure::new(Code::OutOfRange, "the end of the file"));
        }
        Ok(())
    });
    done
}

type Writing = std::sync::Mutex<Writer>;

fn new_writer(
    path: *const c_char,
    file: *mut TF_File,
    status: *mut TF_Status,
    open: fn(Location) -> Result<Writer, Failure>,
) {
    report(status, (), || {
        let location = location(path)?;
        let writer = open(location.clone()).map_err(|failure| {
            match find_file(&location) {
                Err(known) if known.code == Code::FailedPrecondition => return known,
                _ => {}
            }
            match find_parent(&location) {
                Err(known) if known.code != Code::Unavailable => known,
                _ => failure,
            }
        })?;
        give(file, Writing::new(writer));
        Ok(())
    });
}

extern "C" fn new_writable_file(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    file: *mut TF_File,
    status: *mut TF_Status,
) {
    new_writer(path, file, status, Writer::create);
}

extern "C" fn new_appendable_file(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    file: *mut TF_File,
    status: *mut TF_Status,
) {
    new_writer(path, file, status, Writer::append);
}

/// Call a writer. One thread at a time uses a file, but nobody checks that.
fn with_writer<T>(file: *const TF_File, operation: impl FnOnce(&mut Writer) -> T) -> T {
    let mut writer = ours::<Writing>(file)
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    operation(&mut writer)
}

extern "C" fn drop_writer(file: *mut TF_File) {
    // SAFETY: TensorFlow passes its own structure.
    take_back::<Writing>(unsafe { (*file).plugin_file });
}

extern "C" fn append(
    file: *const TF_File,
    buffer: *const c_char,
    count: usize,
    status: *mut TF_Status,
) {
    report(status, (), || {
        if count == 0 {
            return Ok(());
        }
        // SAFETY: TensorFlow has `count` bytes there.
        let data = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), count) };
        with_writer(file, |writer| writer.write(data))
    });
}

extern "C" fn tell(file: *const TF_File, status: *mut TF_Status) -> i64 {
    report(status, -1, || {
        Ok(with_writer(file, |writer| writer.position() as i64))
    })
}

extern "C" fn sync(file: *const TF_File, status: *mut TF_Status) {
    report(status, (), || with_writer(file, Writer::sync));
}

// ---- files as memory

extern "C" fn new_read_only_memory_region_from_file(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    region: *mut TF_ReadOnlyMemoryRegion,
    status: *mut TF_Status,
) {
    report(status, (), || {
        let location = location(path)?;
        let content = open(location.clone())?.read_all()?;
        if content.is_empty() {
            return Err(Failure::new(
                Code::InvalidArgument,
                format!("{location}: an empty file is no region of memory"),
            ));
        }
        // SAFETY: TensorFlow passes its own structure; its cleanup takes the box back.
        unsafe { (*region).plugin_memory_region = Box::into_raw(Box::new(content)).cast() };
        Ok(())
    });
}

fn content<'a>(region: *const TF_ReadOnlyMemoryRegion) -> &'a Vec<u8> {
    // SAFETY: TensorFlow passes what was put there above, before its cleanup.
    unsafe { &*(*region).plugin_memory_region.cast::<Vec<u8>>() }
}

extern "C" fn drop_region(region: *mut TF_ReadOnlyMemoryRegion) {
    // SAFETY: TensorFlow passes its own structure.
    take_back::<Vec<u8>>(unsafe { (*region).plugin_memory_region });
}

extern "C" fn region_data(region: *const TF_ReadOnlyMemoryRegion) -> *const c_void {
    content(region).as_ptr().cast()
}

extern "C" fn region_length(region: *const TF_ReadOnlyMemoryRegion) -> u64 {
    content(region).len() as u64
}

// ---- paths

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
    let path = location.path.clone();
    clusters()?.call(location, |client| async move {
        client.mkdirs(&path, NEW_DIRECTORY, true).await
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
    let path = location.path.clone();
    let gone = clusters()?.call(location, |client| async move {
        client.delete(&path, recursively).await
    })?;
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
        if source.cluster() != target.cluster() {
            return Err(Failure::new(
                Code::FailedPrecondition,
                format!("{source} cannot be renamed to {target}: another cluster"),
            ));
        }
        let (from, to) = (source.path.clone(), target.path.clone());
        clusters()?
            .call(&source, |client| async move {
                client.rename(&from, &to, true).await
            })
            .map_err(|failure| rename_failure(failure, &source, &target))
    });
}

/// Why a rename failed, where the NameNode's exception says it in words only.
fn rename_failure(failure: Failure, source: &Location, target: &Location) -> Failure {
    if failure.is_passing() || failure.code == Code::PermissionDenied {
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

fn children(location: &Location) -> Result<Vec<String>, Failure> {
    let path = location.path.clone();
    let found = clusters()?.call(location, |client| async move {
        client.list_status(&path, false).await
    })?;
    let name = |status: FileStatus| status.path.rsplit('/').next().map(str::to_owned);
    Ok(found.into_iter().filter_map(name).collect())
}
