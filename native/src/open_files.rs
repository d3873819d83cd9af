//! What TensorFlow calls to open files, and for open files.

use std::ffi::{c_char, c_void};
use std::sync::Mutex;

use crate::failure::{Code, Failure};
use crate::filesystem::{find_file, find_parent, location};
use crate::location::Location;
use crate::reader::Reader;
use crate::tensorflow::{
    TF_File, TF_Filesystem, TF_RandomAccessFileOps, TF_ReadOnlyMemoryRegion,
    TF_ReadOnlyMemoryRegionOps, TF_Status, TF_WritableFileOps, report,
};
use crate::writer::Writer;

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

pub extern "C" fn new_random_access_file(
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
    Reader::open(location.clone()).map_err(|failure| {
        if failure.is_passing() {
            return failure;
        }
        match find_file(&location) {
            // HDFS tells that a path is a directory in the words of its exception only.
            Err(known) if known.code == Code::FailedPrecondition => known,
            _ => failure,
        }
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

type Writing = Mutex<Writer>;

fn new_writer(
    path: *const c_char,
    file: *mut TF_File,
    status: *mut TF_Status,
    open: fn(Location) -> Result<Writer, Failure>,
) {
    report(status, (), || {
        let location = location(path)?;
        let writer =
            open(location.clone()).map_err(|failure| creation_failure(failure, &location))?;
        give(file, Writing::new(writer));
        Ok(())
    });
}

/// Why a file could not be opened, where the NameNode's exception says it in words only.
fn creation_failure(failure: Failure, location: &Location) -> Failure {
    if failure.is_passing() || failure.is_final() {
        return failure;
    }
    match find_file(location) {
        Err(known) if known.code == Code::FailedPrecondition => return known,
        _ => {}
    }
    match find_parent(location) {
        Err(known) if !known.is_passing() => known,
        _ => failure,
    }
}

pub extern "C" fn new_writable_file(
    _filesystem: *const TF_Filesystem,
    path: *const c_char,
    file: *mut TF_File,
    status: *mut TF_Status,
) {
    new_writer(path, file, status, Writer::create);
}

pub extern "C" fn new_appendable_file(
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

pub extern "C" fn new_read_only_memory_region_from_file(
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
