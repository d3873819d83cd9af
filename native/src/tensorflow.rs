//! TensorFlow's C interface for file systems, as in its header `filesystem_interface.h`.
//!
//! The header is the same in 2.15 and 2.21. TensorFlow copies as many entries of a
//! table as the plugin says it has, so the tables here end where ours do.

#![allow(non_camel_case_types)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::failure::{Code, Failure};

/// What TensorFlow owns and only `TF_SetStatus` may change.
#[repr(C)]
pub struct TF_Status {
    _private: [u8; 0],
}

/// The handle of an open file: `plugin_file` is ours.
#[repr(C)]
pub struct TF_File {
    pub plugin_file: *mut c_void,
}

/// The handle of a file system: we keep nothing in it.
#[repr(C)]
pub struct TF_Filesystem {
    pub plugin_filesystem: *mut c_void,
}

#[repr(C)]
pub struct TF_ReadOnlyMemoryRegion {
    pub plugin_memory_region: *mut c_void,
}

#[repr(C)]
pub struct TF_FileStatistics {
    pub length: i64,
    pub mtime_nsec: i64,
    pub is_directory: bool,
}

type Path = *const c_char;
type Status = *mut TF_Status;
type Fs = *const TF_Filesystem;

#[repr(C)]
pub struct TF_RandomAccessFileOps {
    pub cleanup: extern "C" fn(*mut TF_File),
    pub read: extern "C" fn(*const TF_File, u64, usize, *mut c_char, Status) -> i64,
}

#[repr(C)]
pub struct TF_WritableFileOps {
    pub cleanup: extern "C" fn(*mut TF_File),
    pub append: extern "C" fn(*const TF_File, *const c_char, usize, Status),
    pub tell: extern "C" fn(*const TF_File, Status) -> i64,
    pub flush: extern "C" fn(*const TF_File, Status),
    pub sync: extern "C" fn(*const TF_File, Status),
    pub close: extern "C" fn(*const TF_File, Status),
}

#[repr(C)]
pub struct TF_ReadOnlyMemoryRegionOps {
    pub cleanup: extern "C" fn(*mut TF_ReadOnlyMemoryRegion),
    pub data: extern "C" fn(*const TF_ReadOnlyMemoryRegion) -> *const c_void,
    pub length: extern "C" fn(*const TF_ReadOnlyMemoryRegion) -> u64,
}

/// The operations of a file system, up to `get_children`.
///
/// For what is `None` and for what follows in TensorFlow's table it has its own ways.
#[repr(C)]
pub struct TF_FilesystemOps {
    pub init: extern "C" fn(*mut TF_Filesystem, Status),
    pub cleanup: extern "C" fn(*mut TF_Filesystem),
    pub new_random_access_file: extern "C" fn(Fs, Path, *mut TF_File, Status),
    pub new_writable_file: extern "C" fn(Fs, Path, *mut TF_File, Status),
    pub new_appendable_file: extern "C" fn(Fs, Path, *mut TF_File, Status),
    pub new_read_only_memory_region_from_file:
        extern "C" fn(Fs, Path, *mut TF_ReadOnlyMemoryRegion, Status),
    pub create_dir: extern "C" fn(Fs, Path, Status),
    pub recursively_create_dir: extern "C" fn(Fs, Path, Status),
    pub delete_file: extern "C" fn(Fs, Path, Status),
    pub delete_dir: extern "C" fn(Fs, Path, Status),
    pub delete_recursively: extern "C" fn(Fs, Path, *mut u64, *mut u64, Status),
    pub rename_file: extern "C" fn(Fs, Path, Path, Status),
    pub copy_file: Option<extern "C" fn(Fs, Path, Path, Status)>,
    pub path_exists: extern "C" fn(Fs, Path, Status),
    pub paths_exist: Option<extern "C" fn(Fs, *mut *mut c_char, c_int, *mut Status) -> bool>,
    pub stat: extern "C" fn(Fs, Path, *mut TF_FileStatistics, Status),
    pub is_directory: extern "C" fn(Fs, Path, Status) -> bool,
    pub get_file_size: extern "C" fn(Fs, Path, Status) -> i64,
    pub translate_name: extern "C" fn(Fs, Path) -> *mut c_char,
    pub get_children: extern "C" fn(Fs, Path, *mut *mut *mut c_char, Status) -> c_int,
}

#[repr(C)]
pub struct TF_FilesystemPluginOps {
    pub scheme: *mut c_char,
    pub filesystem_ops_abi: c_int,
    pub filesystem_ops_api: c_int,
    pub filesystem_ops_size: usize,
    pub filesystem_ops: *mut TF_FilesystemOps,
    pub random_access_file_ops_abi: c_int,
    pub random_access_file_ops_api: c_int,
    pub random_access_file_ops_size: usize,
    pub random_access_file_ops: *mut TF_RandomAccessFileOps,
    pub writable_file_ops_abi: c_int,
    pub writable_file_ops_api: c_int,
    pub writable_file_ops_size: usize,
    pub writable_file_ops: *mut TF_WritableFileOps,
    pub read_only_memory_region_ops_abi: c_int,
    pub read_only_memory_region_ops_api: c_int,
    pub read_only_memory_region_ops_size: usize,
    pub read_only_memory_region_ops: *mut TF_ReadOnlyMemoryRegionOps,
}

#[repr(C)]
pub struct TF_FilesystemPluginInfo {
    pub num_schemes: usize,
    pub ops: *mut TF_FilesystemPluginOps,
    pub plugin_memory_allocate: extern "C" fn(usize) -> *mut c_void,
    pub plugin_memory_free: extern "C" fn(*mut c_void),
}

/// A function of TensorFlow, found in the libraries that this process has loaded.
///
/// Python loads them privately, so they are asked for one by one; none is loaded anew.
pub fn find_function(name: &CStr) -> Option<*mut c_void> {
    const LIBRARIES: [&CStr; 3] = [
        c"libtensorflow_cc.so.2",
        c"libtensorflow_framework.so.2",
        c"_pywrap_tensorflow_internal.so",
    ];
    for library in LIBRARIES {
        // SAFETY: both names are C strings; a handle that is not closed stays valid.
        let found = unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            if handle.is_null() {
                continue;
            }
            libc::dlsym(handle, name.as_ptr())
        };
        if !found.is_null() {
            return Some(found);
        }
    }
    None
}

type SetStatus = extern "C" fn(*mut TF_Status, c_int, *const c_char);

/// Tell TensorFlow how a call has ended.
pub fn set_status(status: *mut TF_Status, code: Code, message: &str) {
    static SET_STATUS: OnceLock<Option<SetStatus>> = OnceLock::new();
    let found = SET_STATUS.get_or_init(|| {
        // SAFETY: this is the function's type in every release of TensorFlow 2.
        find_function(c"TF_SetStatus")
            .map(|f| unsafe { std::mem::transmute::<*mut c_void, SetStatus>(f) })
    });
    // Without it this library could not have been registered.
    let Some(function) = found else { return };
    let text = CString::new(message.replace('\0', "\\0")).unwrap_or_default();
    function(status, code as c_int, text.as_ptr());
}

/// Run an operation, tell TensorFlow its outcome, and return its result, or `otherwise`.
///
/// A panic does not pass into TensorFlow: it is told as an internal error.
pub fn report<T>(
    status: *mut TF_Status,
    otherwise: T,
    operation: impl FnOnce() -> Result<T, Failure>,
) -> T {
    match catch_unwind(AssertUnwindSafe(operation)) {
        Ok(Ok(value)) => {
            set_status(status, Code::Ok, "");
            value
        }
        Ok(Err(failure)) => {
            set_status(status, failure.code, &failure.message);
            otherwise
        }
        Err(_) => {
            set_status(
                status,
                Code::Internal,
                "a bug in ytf's HDFS plugin: it panicked (see stderr)",
            );
            otherwise
        }
    }
}

/// The text of an argument.
pub fn text(argument: *const c_char) -> Result<String, Failure> {
    // SAFETY: TensorFlow passes C strings that live as long as the call.
    let bytes = unsafe { CStr::from_ptr(argument) };
    bytes.to_str().map(str::to_owned).map_err(|_| {
        Failure::new(
            Code::InvalidArgument,
            format!(
                "{}: not UTF-8, as names in HDFS are",
                bytes.to_string_lossy()
            ),
        )
    })
}

pub extern "C" fn allocate(size: usize) -> *mut c_void {
    // SAFETY: malloc has no preconditions.
    unsafe { libc::malloc(size) }
}

pub extern "C" fn free(pointer: *mut c_void) {
    // SAFETY: TensorFlow frees only what was allocated above.
    unsafe { libc::free(pointer) }
}

/// A copy of `text` that TensorFlow frees.
pub fn give_text(text: &str) -> *mut c_char {
    let size = text.len();
    let copy = allocate(size + 1).cast::<u8>();
    assert!(!copy.is_null(), "no memory");
    // SAFETY: there are size + 1 bytes at `copy`, which nobody else knows.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), copy, size);
        *copy.add(size) = 0;
    }
    copy.cast()
}

/// A list of texts that TensorFlow frees; returns how many there are.
pub fn give_texts(texts: &[String], entries: *mut *mut *mut c_char) -> c_int {
    let size = texts.len().max(1) * size_of::<*mut c_char>();
    let list = allocate(size).cast::<*mut c_char>();
    assert!(!list.is_null(), "no memory");
    for (i, text) in texts.iter().enumerate() {
        // SAFETY: the list has room for all of them.
        unsafe { *list.add(i) = give_text(text) };
    }
    // SAFETY: TensorFlow passes a place for the list.
    unsafe { *entries = list };
    c_int::try_from(texts.len()).expect("fewer than two billion names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_here() {
        let outcome = report(std::ptr::null_mut(), -1, || panic!("a bug"));
        assert_eq!(outcome, -1);
    }
}
