//! The reference plugin in Rust, with std only: for each Greeting a ConfigMap "<name>-greeting" that holds its text, and a
//! status that names it. The same job as reference_c and reference_cpp; one test runs all three.
mod abi;

use abi::*;
use std::panic::{catch_unwind, AssertUnwindSafe};

pub struct Greeter {
    cache: &'static Cache,
    client: &'static Client,
}

/// No panic crosses the border: the host replaces the instance instead.
fn guarded(body: impl FnOnce() -> Result<(), i32>) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => OK,
        Ok(Err(code)) => code,
        Err(_) => E_PANIC,
    }
}

fn extension<T>(host: &Host, id: &'static str) -> Result<&'static T, i32> {
    let table = (host.get_ext)(host, Str::of(id)) as *const T;
    unsafe { table.as_ref() }.ok_or_else(|| {
        (host.log)(host, LOG_ERROR, Str::of("the host lacks an extension"), Str::of(""));
        E_UNSUPP
    })
}

impl Greeter {
    fn apply(&self, call: *mut Call, gvk: &str, subresource: &str, intent: &str) -> Result<(), i32> {
        let null = std::ptr::null_mut();
        match (self.client.apply)(call, Str::from(gvk), Str::from(intent), Str::from(subresource), 0, null) {
            OK => Ok(()),
            code => Err(code),
        }
    }

    fn reconcile(&self, call: *mut Call, request: &Request) -> Result<(), i32> {
        let greeting = match Cached::get(self.cache, call, "demo.capstan.dev/Greeting", request.ns, request.name) {
            Ok(greeting) => greeting,
            Err(E_NOT_FOUND) => return Ok(()), // deleted; what it owned goes with it
            Err(code) => return Err(code),
        };
        let (ns, name) = unsafe { (request.ns.get(), request.name.get()) };
        let text = greeting.field("/spec/text").unwrap_or("\"\"");
        let uid = greeting.field("/metadata/uid").ok_or(E_INVALID)?;
        let config_map = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"{ns}","name":"{name}-greeting",
            "ownerReferences":[{{"apiVersion":"demo.capstan.dev/v1","kind":"Greeting","name":"{name}","uid":{uid},
            "controller":true}}]}},"data":{{"text":{text}}}}}"#
        );
        self.apply(call, "v1/ConfigMap", "", &config_map)?;
        let status = format!(
            r#"{{"apiVersion":"demo.capstan.dev/v1","kind":"Greeting","metadata":{{"namespace":"{ns}","name":"{name}"}},
            "status":{{"configMap":"{name}-greeting"}}}}"#
        );
        self.apply(call, "demo.capstan.dev/v1/Greeting", "status", &status)
    }
}

extern "C" fn create(host: *const Host, _config_json: Str, out: *mut *mut Greeter) -> i32 {
    guarded(|| {
        let host = unsafe { &*host };
        let greeter = Greeter {
            cache: extension(host, "capstan.cache/1")?,
            client: extension(host, "capstan.client/1")?,
        };
        unsafe { *out = Box::into_raw(Box::new(greeter)) };
        Ok(())
    })
}

extern "C" fn start(_: *mut Greeter) -> i32 {
    OK
}

extern "C" fn reconcile(greeter: *mut Greeter, call: *mut Call, request: *const Request) -> i32 {
    guarded(|| unsafe { (*greeter).reconcile(call, &*request) })
}

extern "C" fn stop(_: *mut Greeter, _deadline_ns: u64) -> i32 {
    OK
}

extern "C" fn destroy(greeter: *mut Greeter) {
    drop(unsafe { Box::from_raw(greeter) });
}

static PLUGIN: Plugin<Greeter> = Plugin {
    head: Head { size: std::mem::size_of::<Plugin<Greeter>>() as u32, abi: ABI },
    id: Str::of(env!("CAPSTAN_PLUGIN_ID")),
    version: Str::of(env!("CAPSTAN_PLUGIN_VERSION")),
    create,
    start,
    reconcile,
    cancel: None,
    stop,
    destroy,
    get_ext: None,
};

#[no_mangle]
pub extern "C" fn capstan_plugin_entry(host: *const Host) -> *const Plugin<Greeter> {
    let host = unsafe { &*host };
    if host.head.abi >> 16 != ABI_MAJOR {
        (host.refuse)(host, E_UNSUPP, Str::of("this plugin speaks ABI major 1 only"));
        return std::ptr::null();
    }
    &PLUGIN
}

