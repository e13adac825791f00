// The widget workload on controller-runtime, as a minimal idiomatic program; the contract is in ../../README.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"go.uber.org/zap/zapcore"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

type EnvVar struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

type Port struct {
	Name     string `json:"name"`
	Port     int32  `json:"port,omitempty"`
	Protocol string `json:"protocol,omitempty"`
}

type Resources struct {
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}

type Member struct {
	Name     string      `json:"name"`
	ID       string      `json:"id,omitempty"`
	Role     string      `json:"role,omitempty"`
	Ready    bool        `json:"ready,omitempty"`
	LastSeen metav1.Time `json:"lastSeen,omitempty"`
}

type Template struct {
	Command []string `json:"command,omitempty"`
	Env     []EnvVar `json:"env,omitempty"`
	Ports   []Port   `json:"ports,omitempty"`

	Resources *Resources `json:"resources,omitempty"`
}

type WidgetSpec struct {
	Size        int64             `json:"size,omitempty"`
	Image       string            `json:"image,omitempty"`
	Schedule    string            `json:"schedule,omitempty"`
	Description string            `json:"description,omitempty"`
	Config      map[string]string `json:"config,omitempty"`
	Template    *Template         `json:"template,omitempty"`
}

type WidgetStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	SentAtNs           int64              `json:"sentAtNs,omitempty"`
	Phase              string             `json:"phase,omitempty"`
	Message            string             `json:"message,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	Members            []Member           `json:"members,omitempty"`
}

type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec   `json:"spec,omitempty"`
	Status            WidgetStatus `json:"status,omitempty"`
}

type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

func copied(in map[string]string) map[string]string {
	if in == nil {
		return nil
	}
	out := make(map[string]string, len(in))
	for key, value := range in {
		out[key] = value
	}
	return out
}

func (in *Widget) DeepCopyInto(out *Widget) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Config = copied(in.Spec.Config)
	if in.Spec.Template != nil {
		out.Spec.Template = &Template{
			Command: append([]string(nil), in.Spec.Template.Command...),
			Env:     append([]EnvVar(nil), in.Spec.Template.Env...),
			Ports:   append([]Port(nil), in.Spec.Template.Ports...),
		}
		if from := in.Spec.Template.Resources; from != nil {
			out.Spec.Template.Resources = &Resources{Requests: copied(from.Requests), Limits: copied(from.Limits)}
		}
	}
	out.Status.Conditions = append([]metav1.Condition(nil), in.Status.Conditions...)
	out.Status.Members = append([]Member(nil), in.Status.Members...)
}

func (in *Widget) DeepCopyObject() runtime.Object {
	out := new(Widget)
	in.DeepCopyInto(out)
	return out
}

func (in *WidgetList) DeepCopyObject() runtime.Object {
	out := &WidgetList{TypeMeta: in.TypeMeta, ListMeta: in.ListMeta, Items: make([]Widget, len(in.Items))}
	for i := range in.Items {
		in.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

type reconciler struct {
	client.Client
	writes     bool
	started    int64
	reconciles atomic.Int64
	errors     atomic.Int64
	requests   atomic.Int64
	mutex      sync.Mutex
	lastSent   map[types.NamespacedName]int64
	latencies  []float64
}

func (r *reconciler) saw(key types.NamespacedName, sent int64) {
	now := time.Now().UnixNano()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if sent > r.started && r.lastSent[key] != sent {
		r.lastSent[key] = sent
		r.latencies = append(r.latencies, float64(now-sent)/1e6)
	}
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.reconciles.Add(1)
	var widget Widget
	if err := r.Get(ctx, request.NamespacedName, &widget); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	r.saw(request.NamespacedName, widget.Status.SentAtNs)
	if !r.writes {
		return ctrl.Result{}, nil
	}
	if err := r.write(ctx, &widget); err != nil {
		r.errors.Add(1)
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, nil
}

func (r *reconciler) write(ctx context.Context, widget *Widget) error {
	data := map[string]string{"image": widget.Spec.Image, "size": strconv.FormatInt(widget.Spec.Size, 10)}
	for key, value := range widget.Spec.Config {
		data[key] = value
	}
	labels := map[string]string{"app.kubernetes.io/managed-by": "bench-operator", "bench.example.io/widget": widget.Name}
	var current corev1.ConfigMap
	err := r.Get(ctx, client.ObjectKeyFromObject(widget), &current)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	same := err == nil && equality.Semantic.DeepEqual(current.Data, data) && metav1.IsControlledBy(&current, widget)
	for key, value := range labels {
		same = same && current.Labels[key] == value
	}
	if !same {
		owner := metav1ac.OwnerReference().WithAPIVersion("bench.example.io/v1").WithKind("Widget").WithName(widget.Name).
			WithUID(widget.UID).WithController(true).WithBlockOwnerDeletion(true)
		intent := corev1ac.ConfigMap(widget.Name, widget.Namespace).WithLabels(labels).WithOwnerReferences(owner).WithData(data)
		r.requests.Add(1)
		if err := r.Apply(ctx, intent, client.FieldOwner("bench-operator"), client.ForceOwnership); err != nil {
			return err
		}
	}
	if widget.Status.ObservedGeneration == widget.Generation {
		return nil
	}
	patch := fmt.Sprintf(`{"status":{"observedGeneration":%d}}`, widget.Generation)
	r.requests.Add(1)
	return r.Status().Patch(ctx, widget, client.RawPatch(types.MergePatchType, []byte(patch)))
}

func (r *reconciler) summary() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	sort.Float64s(r.latencies)
	latency := map[string]any{"count": len(r.latencies)}
	if n := len(r.latencies); n > 0 {
		sum := 0.0
		for _, value := range r.latencies {
			sum += value
		}
		at := func(q float64) float64 { return r.latencies[int(q*float64(n-1))] }
		latency = map[string]any{"count": n, "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999),
			"max": r.latencies[n-1], "mean": sum / float64(n)}
	}
	line, _ := json.Marshal(map[string]any{"event": "summary", "reconciles": r.reconciles.Load(), "errors": r.errors.Load(),
		"requests": map[string]any{"total": r.requests.Load()}, "latency_ms": latency})
	fmt.Println(string(line))
}

func run() error {
	log.SetLogger(zap.New(zap.Level(zapcore.ErrorLevel)))
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	group := schema.GroupVersion{Group: "bench.example.io", Version: "v1"}
	scheme.AddKnownTypes(group, &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, group)

	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS = -1
	options := ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}}
	if os.Getenv("BENCH_STRIP") == "1" {
		options.Cache = cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	workers, err := strconv.Atoi(os.Getenv("BENCH_WORKERS"))
	if err != nil || workers < 1 {
		workers = 1
	}
	r := &reconciler{Client: manager.GetClient(), writes: os.Getenv("BENCH_MODE") != "cache-only",
		started: time.Now().UnixNano(), lastSent: map[types.NamespacedName]int64{}}
	err = ctrl.NewControllerManagedBy(manager).For(&Widget{}).Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).Complete(r)
	if err != nil {
		return err
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	go func() {
		// Informers exist from here on; both must have their first state.
		for _, object := range []client.Object{&Widget{}, &corev1.ConfigMap{}} {
			if _, err := manager.GetCache().GetInformer(stop, object); err != nil {
				return
			}
		}
		if manager.GetCache().WaitForCacheSync(stop) {
			fmt.Println(`{"event":"synced"}`)
		}
	}()
	err = manager.Start(stop)
	r.summary()
	return err
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
