// A loaded bundle in the form that the executor needs: everything about a plan that does not depend on a call.
// Immutable.
#ifndef SMELT_RUNTIME_EXECUTABLE_H_
#define SMELT_RUNTIME_EXECUTABLE_H_

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "smelt/runtime/device/device.h"
#include "smelt/runtime/library/library.h"
#include "smelt/runtime/operators.h"
#include "smelt/runtime/program.h"
#include "smelt/schema/bundle.h"

namespace smelt {

// Values of expressions. `known` is 0 if a symbol is not known yet or the arithmetic has no result (division by zero,
// overflow). Using such a value is an error; computing it is not.
struct ExprValues {
  std::vector<int64_t> value;
  std::vector<uint8_t> known;

  void Resize(size_t n) {
    value.assign(n, 0);
    known.assign(n, 0);
  }
};

// Evaluates the listed nodes, ascending. `symbols`, `symbol_known`: by symbol index.
void EvaluateExprs(const std::vector<fb::ExprNode>& nodes, const std::vector<int>& which,
                   const std::vector<int64_t>& symbols, const std::vector<uint8_t>& symbol_known, ExprValues* out);

struct ExecutablePlan {
  const fb::PlanT* plan = nullptr;

  // The expressions that the plan needs, ascending: those known before it runs, and those known only from data.
  std::vector<int> exprs, late_exprs;
  std::vector<int> symbols;  // that `exprs` depend on, ascending: their values are the key of a bound plan

  // --- the call patterns it is right for ---
  std::vector<int> inner_of_outer, outer_of_inner;  // the latter: the first outer one
  std::vector<uint8_t> writes_data;      // by outer argument: its memory is written (or its storage replaced)
  std::vector<uint8_t> writes_geometry;  // by outer argument
  std::vector<uint8_t> writes_state;     // by state storage
  // by outer argument: an argument that is the same tensor is returned in its place
  std::vector<uint8_t> returns_other;
  std::vector<std::vector<int>> groups_of;    // by outer argument: overlap groups
  std::vector<std::vector<int>> one_storage;  // outer arguments that must be in one storage
  std::vector<int> reaches_beyond;            // outer arguments whose storage is addressed beyond them: as_strided
  bool identifies = false;                    // some outer arguments are one inner argument
  bool grows = false;                         // it resizes an argument's storage
  struct GrownState {
    int storage = 0, final_bytes = 0;  // an expression
  };
  std::vector<GrownState> grown_states;  // state storages that it resizes
  std::vector<int> changed_states;       // states whose geometry or storage it changes
  // By outer argument: true if a copy in the exported layout can replace it, because only its geometry determines what
  // is read and no view of it is returned.
  std::vector<uint8_t> may_be_copied;
  // By state storage: true if the plan works for any place that an earlier call gave the state, because it addresses
  // the state only by its geometry; and true if a copy in the exported layout can replace it, as for an argument.
  std::vector<uint8_t> state_may_move, state_may_be_copied;

  struct Memory {
    std::vector<uint8_t> slot_late;  // by slot: allocated by a step
    std::vector<uint8_t> view_late;  // by view: geometry or slot known only from data
    // By slot: the output that uses a Fresh slot; -1 none; -2 several, or one that is also stored in an argument.
    std::vector<int> output_of_slot;
  } memory;

  struct Steps {
    std::vector<int> first;  // of each block: the number of its first step among all steps
    int count = 0;
    std::vector<uint8_t> writes_visible;  // by step: it writes an argument or a state
    // The views of arguments and states that steps write, each once.
    std::vector<int> written_views;
    std::vector<int> block;  // by step
  } steps;
};

class Executable : public Program {
 public:
  static absl::StatusOr<std::shared_ptr<const Program>> Make(std::shared_ptr<const Container> container,
                                                             const ProgramOptions& options);

  // In a program with several methods: what they have in common.
  const fb::BundleT& bundle() const { return *bundle_; }
  // The methods of a program that has several; else none.
  const std::vector<std::shared_ptr<const Executable>>& methods() const { return methods_; }
  const Container& container() const { return *container_; }
  std::shared_ptr<const Container> shared_container() const { return container_; }
  const std::vector<ExecutablePlan>& plans() const { return plans_; }
  // The calls of an eager-order plan.
  const std::vector<std::shared_ptr<const Executable>>& eager_calls(int plan) const { return eager_calls_[plan]; }
  // The device that runs the program; null for the host.
  const ExecutionDevice* device() const { return device_; }
  // The code of a kernel for the host; null on a device, where kernels are those of the image.
  KernelEntry kernel(int k) const { return kernels_ == nullptr ? nullptr : (*kernels_)[k]; }
  const KernelImage* image() const { return image_.get(); }
  // The bundle's kernel with that number in the image; null if there is none.
  const fb::KernelT* kernel_of_image(int k) const {
    return image_kernels_ != nullptr && static_cast<size_t>(k) < image_kernels_->size()
               ? (*image_kernels_)[static_cast<size_t>(k)].get()
               : nullptr;
  }
  Library& library() const { return *library_; }
  // The implementation of an operator of the user's own, by the bundle's number.
  const std::shared_ptr<const OperatorFunction>& custom_operator(int i) const { return custom_operators_[i]; }
  const ProgramOptions& options() const { return options_; }

  // Initial contents of a state storage; null if it has no bytes.
  const char* StateBytes(int storage) const { return StateBytes(*bundle_->storages[storage]); }
  // Returns a state storage that no call writes, in the device's memory. All instances share it.
  absl::StatusOr<std::shared_ptr<Storage>> StateOnDevice(int storage) const;

  // The expressions of the arguments' sizes and strides, and the symbols that they depend on.
  const std::vector<int>& signature_exprs() const { return signature_exprs_; }
  // Arguments and state storages that affect the choice of a plan: some plan writes them, or merges them with another.
  const std::vector<uint8_t>& arg_matters() const { return arg_matters_; }
  const std::vector<uint8_t>& state_matters() const { return state_matters_; }
  bool patterns_matter() const { return patterns_matter_; }
  bool writes_states() const { return writes_states_; }

  // Returns the request of a library call for views whose sizes are known. kInternal if a size is not known.
  absl::StatusOr<LibraryRequest> RequestOf(const ExecutablePlan& plan, const fb::LibraryCallT& call,
                                           const ExprValues& values) const;

 private:
  Executable() = default;
  // Makes a call of an eager-order plan: its kernels are those of `outer`.
  static absl::StatusOr<std::shared_ptr<const Executable>> MakeCall(Executable& outer, const fb::BundleT& bundle);
  absl::Status MakeMethods();
  absl::Status Init();
  const char* StateBytes(const fb::StateStorageT& storage) const;
  absl::Status ChooseTarget();
  absl::Status ChooseDeviceTarget(Device device);
  absl::Status FindCustomOperators();
  void Describe();
  void DescribeForCaller();  // of the program itself, not of the calls of an eager-order plan
  void Prepare(const fb::PlanT& plan, ExecutablePlan* out);
  // Fills weights_of_all_rows_ for a bundle, its methods and the calls of its eager-order plans.
  void FindWeightsOfAllRows(const fb::BundleT& bundle);
  absl::Status PrepareLibraryCalls();
  bool IsCheapToPrepare(const LibraryRequest& request);
  // Returns the listed expressions and all that they refer to, ascending.
  std::vector<int> Closure(const std::vector<int>& roots) const;

  std::shared_ptr<const Container> container_;
  std::shared_ptr<const fb::BundleT> own_bundle_;  // null in a call of an eager-order plan
  std::vector<std::shared_ptr<const Executable>> methods_;
  const fb::BundleT* bundle_ = nullptr;
  ProgramOptions options_;
  std::shared_ptr<const std::vector<KernelEntry>> kernels_;                   // including those of the calls
  const std::vector<std::unique_ptr<fb::KernelT>>* image_kernels_ = nullptr;  // those of image_
  const ExecutionDevice* device_ = nullptr;
  std::shared_ptr<const KernelImage> image_;
  mutable std::mutex states_mutex_;
  mutable std::vector<std::shared_ptr<Storage>> states_on_device_;  // by state storage; null: not copied yet
  std::vector<std::shared_ptr<const OperatorFunction>> custom_operators_;
  std::vector<ExecutablePlan> plans_;
  std::vector<std::vector<std::shared_ptr<const Executable>>> eager_calls_;  // by plan
  std::vector<uint8_t> late_expr_;
  std::vector<int> signature_exprs_;
  std::vector<uint8_t> arg_matters_, state_matters_;
  bool patterns_matter_ = false, writes_states_ = false;
  // The states by which products of three rows or more multiply, or of numbers of rows that vary; by StateBytes. Shared
  // with methods and calls.
  std::shared_ptr<std::set<const char*>> weights_of_all_rows_;
  std::shared_ptr<Library> library_;  // shared with the calls of eager-order plans
  // During construction: the bytes of the operands of prepared library calls, including those of eager-order calls.
  int64_t own_prepared_bytes_ = 0;
  int64_t* prepared_bytes_ = &own_prepared_bytes_;
};

}  // namespace smelt

#endif  // SMELT_RUNTIME_EXECUTABLE_H_
