//! The part of capstan.h (ABI 1.0) that this plugin uses, by hand: a plugin needs no generated bindings.
//! Members are appended to tables, never moved, so a prefix of a table is a valid view of it.
#![allow(dead_code)]

use std::ffi::c_void;

pub const ABI_MAJOR: u32 = 1;
pub const ABI: u32 = ABI_MAJOR << 16;
pub const OK: i32 = 0;
pub const E_INVALID: i32 = -1;
pub const E_NOT_FOUND: i32 = -2;
pub const E_UNSUPP: i32 = -13;
pub const E_PANIC: i32 = -15;
pub const LOG_ERROR: i32 = 0;

/// Borrowed UTF-8, valid until the call it came with returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Str {
    pub ptr: *const u8,
    pub len: u64,
}

impl Str {
    pub const fn of(text: &'static str) -> Str {
        Str { ptr: text.as_ptr(), len: text.len() as u64 }
    }

    pub fn from(text: &str) -> Str {
        Str { ptr: text.as_ptr(), len: text.len() as u64 }
    }

    /// # Safety
    /// The text must still be borrowed from its owner.
    pub unsafe fn get<'a>(self) -> &'a str {
        if self.len == 0 {
            return "";
        }
        std::str::from_utf8_unchecked(std::slice::from_raw_parts(self.ptr, self.len as usize))
    }
}

#[repr(C)]
pub struct Head {
    pub size: u32,
    pub abi: u32,
}

pub enum Call {}
pub enum Object {}

#[repr(C)]
pub struct Host {
    pub head: Head,
    pub this: *mut c_void,
    pub get_ext: extern "C" fn(*const Host, Str) -> *const c_void,
    pub log: extern "C" fn(*const Host, i32, Str, Str),
    pub refuse: extern "C" fn(*const Host, i32, Str),
}

#[repr(C)]
pub struct Request {
    pub head: Head,
    pub controller: Str,
    pub group: Str,
    pub kind: Str,
    pub ns: Str,
    pub name: Str,
    pub deadline_ns: u64,
    pub attempt: u32,
    pub flags: u32,
}

/// "capstan.cache/1"
#[repr(C)]
pub struct Cache {
    pub head: Head,
    pub get: extern "C" fn(*mut Call, Str, Str, Str, *mut *const Object) -> i32,
    pub list: *const c_void,
    pub bytes: extern "C" fn(*const Object) -> Str,
    pub field: extern "C" fn(*const Object, Str, *mut Str) -> i32,
    pub release: extern "C" fn(*const Object),
}

/// "capstan.client/1"
#[repr(C)]
pub struct Client {
    pub head: Head,
    pub get: *const c_void,
    pub list: *const c_void,
    pub apply: extern "C" fn(*mut Call, Str, Str, Str, u32, *mut *const Object) -> i32,
}

#[repr(C)]
pub struct Plugin<Instance> {
    pub head: Head,
    pub id: Str,
    pub version: Str,
    pub create: extern "C" fn(*const Host, Str, *mut *mut Instance) -> i32,
    pub start: extern "C" fn(*mut Instance) -> i32,
    pub reconcile: extern "C" fn(*mut Instance, *mut Call, *const Request) -> i32,
    pub cancel: Option<extern "C" fn(*mut Instance, *mut Call)>,
    pub stop: extern "C" fn(*mut Instance, u64) -> i32,
    pub destroy: extern "C" fn(*mut Instance),
    pub get_ext: Option<extern "C" fn(Str) -> *const c_void>,
}

unsafe impl<Instance> Sync for Plugin<Instance> {}

/// One reference to a cached object, given back when it goes out of scope.
pub struct Cached<'a> {
    table: &'a Cache,
    object: *const Object,
}

impl<'a> Cached<'a> {
    /// `Err` holds the host's code.
    pub fn get(table: &'a Cache, call: *mut Call, gk: &str, ns: Str, name: Str) -> Result<Cached<'a>, i32> {
        let mut object = std::ptr::null();
        match (table.get)(call, Str::from(gk), ns, name, &mut object) {
            OK => Ok(Cached { table, object }),
            code => Err(code),
        }
    }

    /// Raw JSON of one field, so that its quoting stays right.
    pub fn field(&self, pointer: &str) -> Option<&str> {
        let mut raw = Str::of("");
        match (self.table.field)(self.object, Str::from(pointer), &mut raw) {
            OK => Some(unsafe { raw.get() }),
            _ => None,
        }
    }
}

impl Drop for Cached<'_> {
    fn drop(&mut self) {
        (self.table.release)(self.object);
    }
}
