//! The widget workload on kube-rs, as a minimal idiomatic program; the contract is in ../../README.md.
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, OwnerReference};
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{watcher, WatchStreamExt};
use kube::{Client, Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Template {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    command: Vec<String>,
    env: Vec<EnvVar>,
    ports: Vec<Port>,
    resources: Option<Resources>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct EnvVar {
    name: String,
    value: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Port {
    name: String,
    port: i32,
    protocol: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Resources {
    requests: BTreeMap<String, String>,
    limits: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Member {
    name: String,
    id: String,
    role: String,
    ready: bool,
    last_seen: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Spec {
    size: i64,
    image: String,
    schedule: String,
    description: String,
    config: BTreeMap<String, String>,
    template: Option<Template>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    observed_generation: i64,
    sent_at_ns: i64,
    phase: String,
    message: String,
    conditions: Vec<Condition>,
    members: Vec<Member>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Widget {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    status: Option<Status>,
}

impl Resource for Widget {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;
    fn kind(_: &()) -> Cow<'_, str> {
        "Widget".into()
    }
    fn group(_: &()) -> Cow<'_, str> {
        "bench.example.io".into()
    }
    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural(_: &()) -> Cow<'_, str> {
        "widgets".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

struct Context {
    client: Client,
    config_maps: Store<ConfigMap>,
    writes: bool,
    started: i64,
    reconciles: AtomicU64,
    errors: AtomicU64,
    requests: AtomicU64,
    seen: Mutex<(HashMap<String, i64>, Vec<f64>)>,
}

fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64
}

impl Context {
    fn saw(&self, widget: &Widget) {
        let sent = widget.status.as_ref().map_or(0, |status| status.sent_at_ns);
        let now = now_ns();
        let mut seen = self.seen.lock().unwrap();
        if sent > self.started {
            let key = format!("{}/{}", widget.namespace().unwrap_or_default(), widget.name_any());
            if seen.0.insert(key, sent) != Some(sent) {
                seen.1.push((now - sent) as f64 / 1e6);
            }
        }
    }

    fn summary(&self) -> String {
        let latencies = &mut self.seen.lock().unwrap().1;
        latencies.sort_by(f64::total_cmp);
        let count = latencies.len();
        let latency = if count == 0 {
            json!({"count": 0})
        } else {
            let at = |q: f64| latencies[(q * (count - 1) as f64) as usize];
            json!({"count": count, "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999),
                   "max": latencies[count - 1], "mean": latencies.iter().sum::<f64>() / count as f64})
        };
        json!({"event": "summary", "reconciles": self.reconciles.load(Ordering::Relaxed),
               "errors": self.errors.load(Ordering::Relaxed),
               "requests": {"total": self.requests.load(Ordering::Relaxed)}, "latency_ms": latency})
        .to_string()
    }
}

fn intent(widget: &Widget) -> ConfigMap {
    let mut data = widget.spec.config.clone();
    data.insert("image".into(), widget.spec.image.clone());
    data.insert("size".into(), widget.spec.size.to_string());
    let name = widget.name_any();
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: widget.namespace(),
            labels: Some(BTreeMap::from([
                ("app.kubernetes.io/managed-by".into(), "bench-operator".into()),
                ("bench.example.io/widget".into(), name.clone()),
            ])),
            owner_references: Some(vec![OwnerReference {
                api_version: "bench.example.io/v1".into(),
                kind: "Widget".into(),
                name,
                uid: widget.uid().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..Default::default()
        },
        data: Some(data),
        ..Default::default()
    }
}

async fn write(widget: &Widget, context: &Context) -> Result<(), kube::Error> {
    let ns = widget.namespace().unwrap_or_default();
    let name = widget.name_any();
    let wanted = intent(widget);
    let same = context.config_maps.get(&ObjectRef::new(&name).within(&ns)).is_some_and(|current| {
        current.data == wanted.data
            && current.metadata.owner_references == wanted.metadata.owner_references
            && wanted.metadata.labels.iter().flatten().all(|(key, value)| current.labels().get(key) == Some(value))
    });
    if !same {
        context.requests.fetch_add(1, Ordering::Relaxed);
        Api::<ConfigMap>::namespaced(context.client.clone(), &ns)
            .patch(&name, &PatchParams::apply("bench-operator").force(), &Patch::Apply(&wanted))
            .await?;
    }
    let observed = widget.status.as_ref().map_or(0, |status| status.observed_generation);
    if Some(observed) != widget.metadata.generation {
        context.requests.fetch_add(1, Ordering::Relaxed);
        let patch = json!({"status": {"observedGeneration": widget.metadata.generation}});
        Api::<Widget>::namespaced(context.client.clone(), &ns)
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
    }
    Ok(())
}

async fn reconcile(widget: Arc<Widget>, context: Arc<Context>) -> Result<Action, kube::Error> {
    context.reconciles.fetch_add(1, Ordering::Relaxed);
    context.saw(&widget);
    if context.writes {
        write(&widget, &context).await?;
    }
    Ok(Action::await_change())
}

/// Prints "synced" at the end of the last first state. Two tasks in Store::wait_until_ready would do, but in kube 5 the
/// second takes the waker of the first, and the controller is one already.
fn says_synced<K>(missing: &Arc<AtomicU64>) -> impl FnMut(&watcher::Result<watcher::Event<K>>) + use<K> {
    let missing = missing.clone();
    move |event| {
        if matches!(event, Ok(watcher::Event::InitDone)) && missing.fetch_sub(1, Ordering::Relaxed) == 1 {
            println!("{}", json!({"event": "synced"}));
        }
    }
}

fn again(_: Arc<Widget>, _: &kube::Error, context: Arc<Context>) -> Action {
    context.errors.fetch_add(1, Ordering::Relaxed);
    Action::requeue(Duration::from_secs(1))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let strip = variable("BENCH_STRIP") == "1";
    let workers = variable("BENCH_WORKERS").parse().unwrap_or(1).max(1);

    let missing = Arc::new(AtomicU64::new(2)); // kinds without a first state
    let (widgets, widget_writer) = reflector::store();
    let (config_maps, config_map_writer) = reflector::store();
    let widget_stream = watcher(Api::<Widget>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(move |widget| {
            if strip {
                widget.managed_fields_mut().clear();
            }
        })
        .reflect(widget_writer)
        .inspect(says_synced(&missing))
        .applied_objects();
    let config_map_stream = watcher(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(move |config_map| {
            if strip {
                config_map.managed_fields_mut().clear();
            }
        })
        .reflect(config_map_writer)
        .inspect(says_synced(&missing))
        .touched_objects();
    let context = Arc::new(Context {
        client,
        config_maps: config_maps.clone(),
        writes: variable("BENCH_MODE") != "cache-only",
        started: now_ns(),
        reconciles: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        requests: AtomicU64::new(0),
        seen: Mutex::default(),
    });
    Controller::for_stream(widget_stream, widgets)
        .owns_stream(config_map_stream)
        .with_config(Config::default().concurrency(workers))
        .shutdown_on_signal()
        .run(reconcile, again, context.clone())
        .for_each(|_| std::future::ready(()))
        .await;
    println!("{}", context.summary());
    Ok(())
}
