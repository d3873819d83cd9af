//! Registers this library as TensorFlow's file system, as soon as it is loaded.
//!
//! TensorFlow loads what `TF_PLUGGABLE_DEVICE_LIBRARY_PATH` names, but calls only the
//! entries of devices in it. So a constructor asks TensorFlow to register it as a
//! file system, upon which `TF_InitPlugin` is called.
//!
//! tensorflow-io wants the same schemes when it is imported, and TensorFlow gives each to one
//! only. So where it is installed, and can be loaded, this library does nothing.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::filesystem::FILESYSTEM_OPS;
use crate::open_files::{RANDOM_ACCESS_FILE_OPS, READ_ONLY_MEMORY_REGION_OPS, WRITABLE_FILE_OPS};
use crate::tensorflow::{
    TF_FilesystemPluginInfo, TF_FilesystemPluginOps, TF_Status, allocate, find_function, free,
    give_text,
};

const SCHEMES: [&str; 2] = ["hdfs", "viewfs"];
/// The last release of TensorFlow on which a tensorflow-io loads.
const LAST_WITH_TENSORFLOW_IO: (u32, u32) = (2, 16);

#[used]
#[unsafe(link_section = ".init_array")]
static REGISTER: extern "C" fn() = register;

extern "C" fn register() {
    if let Err(reason) = std::panic::catch_unwind(try_register).unwrap_or(Err("it panicked".into()))
    {
        eprintln!("ytf: TensorFlow cannot open hdfs:// here: {reason}");
    }
}

fn try_register() -> Result<(), String> {
    type New = extern "C" fn() -> *mut TF_Status;
    type Delete = extern "C" fn(*mut TF_Status);
    type GetCode = extern "C" fn(*const TF_Status) -> c_int;
    type Message = extern "C" fn(*const TF_Status) -> *const c_char;
    type Register = extern "C" fn(*const c_char, *mut TF_Status);

    let find = |name: &CStr| {
        find_function(name).ok_or_else(|| {
            format!(
                "this TensorFlow has no {} (2.12 and newer have)",
                name.to_string_lossy()
            )
        })
    };
    let status_function = find(c"TF_NewStatus")?;
    if let Some(other) = tensorflow_io(&path_of(status_function)?, version()) {
        return Err(format!(
            "tensorflow-io is installed ({}), which opens it when it is imported; without it, \
             ytf's plugin would",
            other.display()
        ));
    }
    let library = path_of(register as *const c_void)?;
    let library = CString::new(library.into_os_string().into_encoded_bytes())
        .map_err(|_| "the library has an odd path")?;
    // SAFETY: these are the functions' types in TensorFlow's C headers since 2.2.
    unsafe {
        let new: New = std::mem::transmute(status_function);
        let delete: Delete = std::mem::transmute(find(c"TF_DeleteStatus")?);
        let code: GetCode = std::mem::transmute(find(c"TF_GetCode")?);
        let message: Message = std::mem::transmute(find(c"TF_Message")?);
        let register: Register = std::mem::transmute(find(c"TF_RegisterFilesystemPlugin")?);
        find(c"TF_SetStatus")?;
        let status = new();
        register(library.as_ptr(), status);
        let outcome = match code(status) {
            0 => Ok(()),
            _ => Err(CStr::from_ptr(message(status))
                .to_string_lossy()
                .into_owned()),
        };
        delete(status);
        outcome
    }
}

/// The file of the library that has a function.
fn path_of(function: *const c_void) -> Result<PathBuf, String> {
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for; the name lives as long as its library is loaded.
    unsafe {
        if libc::dladdr(function, &mut info) == 0 || info.dli_fname.is_null() {
            return Err("a library does not know its own path".into());
        }
        let path = CStr::from_ptr(info.dli_fname).to_bytes();
        Ok(PathBuf::from(std::ffi::OsStr::from_bytes(path)))
    }
}

/// TensorFlow's version, `(2, 21)`.
fn version() -> Option<(u32, u32)> {
    type Version = extern "C" fn() -> *const c_char;
    // SAFETY: this is the function's type in every release of TensorFlow; its text is static.
    let text = unsafe {
        let version: Version = std::mem::transmute(find_function(c"TF_Version")?);
        CStr::from_ptr(version()).to_str().ok()?
    };
    let mut numbers = text.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// The tensorflow-io beside TensorFlow, if there is one that can be loaded.
fn tensorflow_io(tensorflow: &Path, version: Option<(u32, u32)>) -> Option<PathBuf> {
    if version.is_none_or(|version| version > LAST_WITH_TENSORFLOW_IO) {
        return None;
    }
    let package = tensorflow
        .ancestors()
        .find(|path| path.file_name().is_some_and(|name| name == "tensorflow"))?;
    let found = package.with_file_name("tensorflow_io");
    found
        .join("python/ops/libtensorflow_io_plugins.so")
        .exists()
        .then_some(found)
}

/// Called by TensorFlow to learn what this library can do.
#[unsafe(no_mangle)]
pub extern "C" fn TF_InitPlugin(info: *mut TF_FilesystemPluginInfo) {
    let size = SCHEMES.len() * size_of::<TF_FilesystemPluginOps>();
    let list = allocate(size).cast::<TF_FilesystemPluginOps>();
    if list.is_null() {
        return;
    }
    for (i, scheme) in SCHEMES.iter().enumerate() {
        let ops = TF_FilesystemPluginOps {
            scheme: give_text(scheme),
            filesystem_ops_abi: 0,
            filesystem_ops_api: 0,
            filesystem_ops_size: size_of_val(&FILESYSTEM_OPS),
            filesystem_ops: give_table(FILESYSTEM_OPS),
            random_access_file_ops_abi: 0,
            random_access_file_ops_api: 0,
            random_access_file_ops_size: size_of_val(&RANDOM_ACCESS_FILE_OPS),
            random_access_file_ops: give_table(RANDOM_ACCESS_FILE_OPS),
            writable_file_ops_abi: 0,
            writable_file_ops_api: 0,
            writable_file_ops_size: size_of_val(&WRITABLE_FILE_OPS),
            writable_file_ops: give_table(WRITABLE_FILE_OPS),
            read_only_memory_region_ops_abi: 0,
            read_only_memory_region_ops_api: 0,
            read_only_memory_region_ops_size: size_of_val(&READ_ONLY_MEMORY_REGION_OPS),
            read_only_memory_region_ops: give_table(READ_ONLY_MEMORY_REGION_OPS),
        };
        // SAFETY: the list has room for all schemes.
        unsafe { list.add(i).write(ops) };
    }
    // SAFETY: TensorFlow passes its own structure.
    unsafe {
        (*info).num_schemes = SCHEMES.len();
        (*info).ops = list;
        (*info).plugin_memory_allocate = allocate;
        (*info).plugin_memory_free = free;
    }
}

/// A copy of a table, in memory that TensorFlow frees.
fn give_table<T>(table: T) -> *mut T {
    let place = allocate(size_of::<T>()).cast::<T>();
    assert!(!place.is_null(), "no memory");
    // SAFETY: there is room for one at this place.
    unsafe { place.write(table) };
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensorflow_io_is_seen_where_it_loads() {
        let site = std::env::temp_dir().join(format!("ytf-site-{}", std::process::id()));
        let library = site.join("tensorflow/libtensorflow_framework.so.2");
        assert_eq!(tensorflow_io(&library, Some((2, 15))), None);
        let plugins = site.join("tensorflow_io/python/ops/libtensorflow_io_plugins.so");
        std::fs::create_dir_all(plugins.parent().unwrap()).unwrap();
        std::fs::write(&plugins, "").unwrap();
        assert_eq!(
            tensorflow_io(&library, Some((2, 15))),
            Some(site.join("tensorflow_io"))
        );
        assert_eq!(tensorflow_io(&library, Some((2, 21))), None);
        std::fs::remove_dir_all(site).unwrap();
    }
}
