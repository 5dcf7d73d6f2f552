// Runs bundles: the C++ API.
//
//   SMELT_ASSIGN_OR_RETURN(auto program, Program::Load("net.smb"));                 // once per process
//   SMELT_ASSIGN_OR_RETURN(auto instance, Instance::Create(program));               // one per thread of the caller
//   Tensor x = Tensor::Empty(DType::kFloat32, {4, 8});
//   SMELT_ASSIGN_OR_RETURN(std::vector<Datum> outputs, instance->Run({x}));
//
// The caller sees what eager PyTorch shows. Arguments that the model writes are written in place. Arguments whose
// geometry it changes (t_, resize_) have another geometry afterwards. Outputs share memory with arguments, buffers and
// each other as they would in PyTorch, and an output that is an argument is the same tensor.
//
// A bundle may hold several methods: programs that have weights, buffers and kernels in common. The program and the
// instance of a method are a Program and an Instance like those of a bundle with one:
//
//   SMELT_ASSIGN_OR_RETURN(Instance* prefill, instance->Method("prefill"));
//   SMELT_ASSIGN_OR_RETURN(Instance* decode, instance->Method("decode"));
//   prefill->Run({prompt});   // fills a cache that is a buffer of the model
//   decode->Run({token});     // finds it there
//
// A Program is immutable and shared by threads. An Instance owns everything that changes (buffers, working memory, the
// random generator) and is used by one caller at a time, whichever of its methods are called. Loading verifies the bundle's header, metadata and code; the
// weights are mapped and read when they are needed. Nothing in a bundle executes before the first Run. Running a bundle
// runs its code, so run only bundles whose origin you trust.
#ifndef SMELT_RUNTIME_PROGRAM_H_
#define SMELT_RUNTIME_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "smelt/core/convention/call_structure.h"
#include "smelt/core/tensor/guarded_storage.h"
#include "smelt/core/tensor/tensor.h"
#include "smelt/runtime/value.h"

namespace smelt {

struct ProgramOptions {
  int threads = 0;              // an instance uses at most this many; 0: one per core
  bool verify_weights = false;  // read all weights and compare their digests
  std::string target;           // "x86-64-v3": this target or an error; empty: the best that this machine runs
  std::string device;           // "cuda:0": arguments, states and results are in its memory; empty: the CPU
};

enum class ValueKind { kTensor, kInt, kFloat, kBool, kNone, kString, kComplex };

// A size of a tensor, or a number that is an argument, as far as it is known before a call.
struct DimInfo {
  int64_t size = -1;  // the same in every call; -1 where it varies
  int64_t min = 0, max = INT64_MAX;
  std::string expr;  // "3", "s0", "(4 * s0)"; empty where only the data of a call decide
};

struct ArgInfo {
  std::string name;
  // Where the caller has it: "x", or "d.k.0" for d["k"][0]. The name where the bundle does not say.
  std::string path;
  ValueKind kind = ValueKind::kTensor;
  DType dtype = DType::kFloat32;  // of a tensor
  // Sizes that are the same in every call; -1 for sizes that vary.
  std::vector<int64_t> sizes;
  std::vector<DimInfo> dims;     // the same, and their ranges
  std::vector<int64_t> strides;  // of the exported example; -1 where they depend on sizes that vary
  DimInfo value;                 // of an int
  bool has_constant = false;     // the value is baked in: another one is refused
  Datum constant;
  // The effects that some call has on it.
  bool writes_data = false;
  bool changes_geometry = false;  // t_, squeeze_, ...
  bool replaces_storage = false;  // set_
  bool resizes = false;           // its storage may grow
};

// Where a result lies.
enum class ResultPlace {
  kUnknown,     // the bundle does not say
  kNoTensor,    // it is a number, a string or None
  kFresh,       // in memory of its own
  kShared,      // in memory that other results may share
  kInArgument,  // a view of an argument
  kIsArgument,  // the argument itself
  kInState,     // a view of a parameter or buffer
  kIsState,     // the parameter or buffer itself
};

struct ResultInfo {
  std::string name;  // as the model's caller says it ("logits", "aux.0") where it has names, else the graph's
  ValueKind kind = ValueKind::kTensor;
  std::string node;  // the graph's name for it
  std::string path;  // where it is in what the model returns: "logits", "0"; "" for a lone result
  bool has_dtype = false, has_sizes = false;  // of a tensor: whether these are known before a call
  DType dtype = DType::kFloat32;
  std::vector<DimInfo> dims;
  ResultPlace place = ResultPlace::kUnknown;  // in a call whose arguments share no memory
  int index = -1;                             // of that argument or state
};

struct StateInfo {
  std::string name;
  enum class Kind { kParameter, kBuffer, kConstant } kind = Kind::kParameter;
  int storage = 0;  // states with the same number share memory
  DType dtype = DType::kFloat32;
  Geometry geometry;
  bool is_mutated = false;  // some call writes it or hands it out
  bool may_move = false;    // a call may resize its storage: addresses in it are good until the next call
};

class Instance;

class Program : public std::enable_shared_from_this<Program> {
 public:
  // Loads a bundle. Error codes: kNotFound, kPermissionDenied; kDataLoss (not a bundle, truncated, corrupt),
  // kInvalidArgument (a graph); kUnimplemented (a newer format); kFailedPrecondition (no target of the bundle fits this
  // machine: the message names the missing feature); kResourceExhausted.
  static absl::StatusOr<std::shared_ptr<const Program>> Load(absl::string_view path,
                                                             const ProgramOptions& options = {});
  // Copies the bytes. `name` replaces the path in messages.
  static absl::StatusOr<std::shared_ptr<const Program>> LoadFromMemory(absl::Span<const uint8_t> bytes,
                                                                       const ProgramOptions& options = {},
                                                                       absl::string_view name = "(memory)");
  virtual ~Program() = default;

  const std::string& model_name() const { return model_name_; }
  const std::string& target() const { return target_; }   // the chosen one; "" if the bundle has no kernels
  const Device& on_device() const { return on_device_; }  // where it runs
  const std::vector<ArgInfo>& args() const { return args_; }
  const std::vector<ResultInfo>& results() const { return results_; }
  std::vector<std::string> output_names() const;
  const std::vector<StateInfo>& states() const { return states_; }
  // How the caller nests arguments and results: trees whose leaves are args() and results(), in order. Empty where the
  // bundle does not say: a flat tuple.
  const Structure& argument_structure() const { return argument_structure_; }
  const Structure& result_structure() const { return result_structure_; }
  const std::vector<std::string>& targets() const { return targets_; }  // that the bundle has code for
  int bundle_format() const { return bundle_format_; }
  int64_t packed_weight_bytes() const;  // memory that packing took so far

  // The names of the methods; of a program with one: "forward", unless the bundle names it.
  const std::vector<std::string>& method_names() const { return method_names_; }
  // Returns the program of one method, with its arguments and results; the states are those of all methods. A program
  // with several methods has no arguments and results itself. kNotFound lists the methods.
  absl::StatusOr<std::shared_ptr<const Program>> Method(absl::string_view name) const;

 protected:
  friend class Instance;
  Program() = default;
  absl::Status NoSuchMethod(absl::string_view name) const;

  std::string model_name_, target_;
  std::vector<ArgInfo> args_;
  std::vector<ResultInfo> results_;
  std::vector<StateInfo> states_;
  Structure argument_structure_, result_structure_;
  std::vector<std::string> targets_, method_names_;
  int bundle_format_ = 0;
  Device on_device_;
};

// The plan of the bundle that ran, which depends on the arguments that share memory.
enum class AliasVariant { kDistinct, kDuplicate, kOverlap, kEagerOrder };
const char* Name(AliasVariant v);  // "distinct", "duplicate", "overlap", "eager-order"

// Statistics of one call.
struct CallStats {
  AliasVariant variant = AliasVariant::kDistinct;
  int64_t kernel_launches = 0;
  int64_t library_calls = 0;
  int64_t bytes_copied_back = 0;  // into arguments and buffers, after they were computed elsewhere
  int64_t arena_bytes = 0;
  // On a device: the steps that the host has computed, on copies of their operands; the bytes copied between host and
  // device for them, for copies in other strides, and for values that the call depends on; and how often the host has
  // waited for the device.
  int64_t host_steps = 0, bytes_to_host = 0, bytes_to_device = 0, device_waits = 0;
  // The functions of the driver that were called, and the graphs that were launched: from the second call with the same
  // sizes on, one for all that lies between two reads of the host.
  int64_t driver_calls = 0, graph_launches = 0;
  int64_t cublaslt_products = 0;  // library calls that cuBLASLt has computed
};

struct InstanceOptions {
  int threads = 0;  // 0: the program's
  uint64_t seed = 0;
  // For tests: every buffer of the instance (results, working memory by slot, states) ends or begins at an inaccessible
  // page. Slow.
  GuardPages guard = GuardPages::kNone;
  bool time_steps = false;  // measures Instance::step_times; about 50 ns per step
};

// The time of a step of a plan, numbered as in `smelt inspect`.
struct StepTime {
  int plan = 0, block = 0, step = 0;
  int64_t runs = 0;
  int64_t least_ns = 0;  // of one run
};

// The end of work that a call of Instance::Start is waiting for. Internal.
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  virtual bool Done() const = 0;
  virtual absl::Status Wait() = 0;
};

// A call that a device may still compute.
//
//   SMELT_ASSIGN_OR_RETURN(StartedCall call, instance->Start(args, stream));
//   ... later work on `stream` finds the results ...
//   SMELT_RETURN_IF_ERROR(call.Wait());
//
// An object that is destroyed before the call's end does not end it.
class StartedCall {
 public:
  StartedCall() = default;
  StartedCall(std::shared_ptr<PendingCall> pending, std::vector<Datum> outputs)
      : pending_(std::move(pending)), outputs_(std::move(outputs)) {}

  // The results. If Wait fails, they mean nothing.
  const std::vector<Datum>& outputs() const { return outputs_; }
  // Returns whether Wait returns at once.
  bool Done() const { return pending_ == nullptr || pending_->Done(); }
  // Waits for the results and returns the call's error, as Instance::Run does: data may have refused the call, or the
  // device has failed. The same in every call of Wait.
  absl::Status Wait() { return pending_ == nullptr ? absl::OkStatus() : pending_->Wait(); }

 private:
  std::shared_ptr<PendingCall> pending_;
  std::vector<Datum> outputs_;
};

class Instance {
 public:
  // Returns kResourceExhausted if memory is short.
  static absl::StatusOr<std::unique_ptr<Instance>> Create(std::shared_ptr<const Program> program,
                                                          const InstanceOptions& options = {});
  virtual ~Instance() = default;

  // Runs the model. Allocates nothing but the outputs for sizes that occurred before. On a device it returns when the
  // results are there; calls on one device run one after the other.
  //
  // kInvalidArgument: the arguments do not fit the model's signature, or there are several methods and this is the
  // instance of all. kFailedPrecondition: PyTorch would refuse the call too, or the bundle has no plan for this way of
  // sharing memory. Both are returned before anything is written, except if they depend on the data. Then the call's
  // writes are undone. If they are large (64 KiB on the host, more than there is memory for on a device), the message
  // names the arguments that may have been written instead. kResourceExhausted: there is not enough memory for the call;
  // nothing was written, or the message names what may have been.
  absl::StatusOr<std::vector<Datum>> Run(absl::Span<const Datum> args);
  absl::StatusOr<std::vector<Datum>> Run(std::initializer_list<Datum> args) {
    return Run(absl::Span<const Datum>(args.begin(), args.size()));
  }

  // Runs the model with memory for results from the caller. If *outputs holds a tensor, its dtype and sizes must be the
  // result's, and the result's values are written there (directly if its layout is the result's and it shares no memory
  // with an argument, else by a copy). If it holds None, the result is as above. *outputs must have as many elements as
  // the model has outputs, or none.
  virtual absl::Status RunInto(absl::Span<const Datum> args, std::vector<Datum>* outputs) = 0;

  // Runs the model on a device without waiting for it. The call's work follows what the caller has given to `stream`, and
  // what the caller gives to `stream` later follows the call. `stream` is the driver's handle (CUstream, cudaStream_t):
  // 0 and 1 are the default stream, 2 is the calling thread's. The call still waits for values that it depends on. An
  // error that shows before the device has the work is returned here, any other by StartedCall::Wait. Until the call's end,
  // the caller keeps the memory of arguments that are not smelt's. On the CPU the call is done when this returns.
  absl::StatusOr<StartedCall> Start(absl::Span<const Datum> args, uint64_t stream = 0) {
    return StartInto(args, {}, stream);
  }
  absl::StatusOr<StartedCall> Start(std::initializer_list<Datum> args, uint64_t stream = 0) {
    return Start(absl::Span<const Datum>(args.begin(), args.size()), stream);
  }
  // The same with memory for results, as RunInto takes it.
  virtual absl::StatusOr<StartedCall> StartInto(absl::Span<const Datum> args, std::vector<Datum> outputs,
                                                uint64_t stream) = 0;
  // Returns the times of the steps that have run; empty unless InstanceOptions::time_steps is set.
  virtual std::vector<StepTime> step_times() const = 0;

  const CallStats& last_call() const { return stats_; }

  // Returns the instance's part for one method, which lives as long as the instance. All parts have the same states and
  // generator: Run, RunInto, last_call and step_times are of the method, everything else is of the instance. If there
  // is one method, it is the instance itself. kNotFound lists the methods.
  virtual absl::StatusOr<Instance*> Method(absl::string_view name) = 0;

  // Returns the state's own tensor, whose storage is the instance's. The caller must not write a parameter that no call
  // writes.
  virtual Tensor state(int index) const = 0;
  // Resets the contents and geometry of all states to those in the bundle, in the current storages. Returns
  // kResourceExhausted if memory is short; then the states are unchanged.
  virtual absl::Status ResetStates() = 0;
  // Makes later random draws a function of the seed and of the calls.
  virtual void Seed(uint64_t seed) = 0;

 protected:
  Instance() = default;
  CallStats stats_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_PROGRAM_H_
