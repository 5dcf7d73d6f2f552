// No operator crashes or hangs for any arguments, because a file may name any operator with any arguments. They run in
// another process on random arguments, most of them invalid: tensors of any rank, sizes of 0, dims and sizes out of
// range, numbers at the ends of int64. SMELT_HOSTILE_OPERATOR in the environment selects one operator, which runs in
// the test's own process, for a debugger; SMELT_HOSTILE_CALLS sets the number of calls of each.
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/ir/graph.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

constexpr int kSecondsAnOperator = 10;

int CallsAnOperator() {
  const char* n = std::getenv("SMELT_HOSTILE_CALLS");
  return n != nullptr ? std::atoi(n) : 60;
}

// An argument as a node's operand and as a value of the evaluator.
struct HostileArgument {
  ValueId operand;
  EvalValue value;
};

class HostileCall {
 public:
  HostileCall(const FunctionSchema& schema, uint64_t seed) : schema_(schema), random_(seed) {}

  // Returns false for an argument type that is not made here.
  bool Make() {
    std::vector<ValueId> operands;
    std::vector<Type> results;
    for (const Argument& a : schema_.arguments) {
      std::optional<HostileArgument> made = MakeArgument(a);
      if (!made) return false;
      operands.push_back(made->operand);
      values.push_back(std::move(made->value));
    }
    for (const Argument& r : schema_.returns) results.push_back(r.type);
    node = graph.Append(graph.top(), schema_.op, operands, results);
    return true;
  }

  Graph graph;
  NodeId node;
  std::vector<EvalValue> values;

 private:
  template <typename T>
  T AnyOf(std::initializer_list<T> v) {
    return v.begin()[random_() % v.size()];
  }
  bool Chance(int percent) { return static_cast<int>(random_() % 100) < percent; }

  HostileArgument Number(const ConstantValue& v) {
    HostileArgument a{InsertConstant(graph, graph.block(graph.top()).return_node, v), EvalValue()};
    if (const auto* i = std::get_if<int64_t>(&v)) a.value = EvalValue(*i);
    if (const auto* d = std::get_if<double>(&v)) a.value = EvalValue(*d);
    if (const auto* b = std::get_if<bool>(&v)) a.value = EvalValue(*b);
    if (const auto* s = std::get_if<std::string>(&v)) a.value = EvalValue(*s);
    if (const auto* l = std::get_if<std::vector<int64_t>>(&v)) a.value = EvalValue::Ints(*l);
    return a;
  }
  HostileArgument AnyTensor() {
    const DType dtype = AnyOf({DType::kFloat32, DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kInt32,
                               DType::kBool, DType::kComplex64, DType::kBFloat16, DType::kUInt8});
    const std::vector<int64_t> sizes = AnyOf<std::vector<int64_t>>(
        {{}, {}, {1}, {3}, {0}, {2, 3}, {3, 3}, {3, 0}, {1, 2, 4}, {2, 3, 3}, {1, 2, 4, 4}, {1, 1, 2, 3, 3}});
    const Geometry g = Geometry::Contiguous(sizes);
    const Type type = Type::Tensor(dtype, std::vector<Expr>(sizes.begin(), sizes.end()),
                                   std::vector<Expr>(g.strides.begin(), g.strides.end()));
    const int64_t bytes = std::max<int64_t>(g.Span().second, 1) * ItemSize(dtype);
    std::shared_ptr<Storage> storage = Storage::Allocate(bytes);
    for (int64_t i = 0; i < bytes; ++i) storage->data()[i] = Chance(80) ? 0 : 1;
    return {graph.AddInput("", type), EvalValue(Tensor(std::move(storage), dtype, g))};
  }
  HostileArgument List(int64_t longest, const Type& element) {
    std::vector<ValueId> operands;
    std::vector<EvalValue> elements;
    for (int64_t k = static_cast<int64_t>(random_() % (longest + 1)); k > 0; --k) {
      HostileArgument a = AnyTensor();
      operands.push_back(a.operand);
      elements.push_back(std::move(a.value));
    }
    const NodeId n = graph.Append(graph.top(), OpName::Get("prim::ListConstruct"), operands, {Type::List(element)});
    return {graph.node(n).outputs[0], EvalValue::List(std::move(elements))};
  }
  int64_t AnyInt() {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = std::numeric_limits<int64_t>::min();
    return Chance(85) ? AnyOf<int64_t>({0, 0, 1, 1, 2, 3, -1, -1, -2, -4, 5, 7})
                      : AnyOf<int64_t>({kMax, kMin, 1 << 20});
  }

  std::optional<HostileArgument> MakeArgument(const Argument& a) {
    Type type = a.type;
    if (a.default_value && Chance(50)) return Number(*a.default_value);
    if (type.kind() == TypeKind::kOptional) {
      if (Chance(40)) return Number(ConstantValue());
      type = type.element();
    }
    switch (type.kind()) {
      case TypeKind::kTensor:
        return AnyTensor();
      case TypeKind::kInt:
        return Number(AnyInt());
      case TypeKind::kFloat:
        return Number(AnyOf({0., 1., -1., .5, 1e300, -1e-300, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}));
      case TypeKind::kNumber:
        if (Chance(50)) return Number(AnyInt());
        return Number(AnyOf({0., .5, -2., 1e300, std::numeric_limits<double>::quiet_NaN()}));
      case TypeKind::kBool:
        return Number(Chance(50));
      case TypeKind::kString:
        return Number(
            std::string(AnyOf({"", "mean", "sum", "amax", "floor", "trunc", "none", "tanh", "ij", "linear"})));
      case TypeKind::kDevice:
      case TypeKind::kGenerator:
      case TypeKind::kNone:
        return Number(ConstantValue());
      case TypeKind::kList:
        if (type.element().IsTensor() || (type.element().kind() == TypeKind::kOptional)) return List(3, type.element());
        if (type.element().kind() == TypeKind::kInt) {
          std::vector<int64_t> v;
          for (int64_t k = static_cast<int64_t>(random_() % 4); k > 0; --k) v.push_back(AnyInt());
          return Number(v);
        }
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  const FunctionSchema& schema_;
  std::mt19937_64 random_;
};

// The k-th call of each operator is always the same one.
HostileCall KthCall(const FunctionSchema& schema, int k) {
  return HostileCall(schema, static_cast<uint64_t>(k) * 7919 + std::hash<std::string>()(schema.op.full()));
}

// Ignores the results of the calls. `running` is the number of the current call.
void RunCalls(const FunctionSchema& schema, int calls, volatile int* running) noexcept {
  for (int k = 0; k < calls; ++k) {
    *running = k;
    HostileCall call = KthCall(schema, k);
    if (!call.Make()) return;
    (void)InferNode(call.graph, call.node);
    EvalOptions options;
    options.max_tensor_bytes = 1 << 16;
    (void)EvaluateOp(schema.op, call.values, options);
  }
}

// The current call, in memory that both processes share.
struct Running {
  size_t schema = 0;
  int call = 0;
};

TEST(HostileArgumentsTest, NoOperatorCrashesOrHangs) {
  if (const char* only = std::getenv("SMELT_HOSTILE_OPERATOR"); only != nullptr) {
    ASSERT_NE(FindSchema(OpName::Get(only)), nullptr);
    volatile int running = 0;
    return RunCalls(*FindSchema(OpName::Get(only)), CallsAnOperator(), &running);
  }
  std::vector<const FunctionSchema*> schemas;
  for (absl::string_view name : AllSchemaNames()) {
    if (absl::StartsWith(name, "aten::")) schemas.push_back(FindSchema(OpName::Get(name)));
  }
  EXPECT_GT(schemas.size(), 2000u);
  void* shared = mmap(nullptr, sizeof(Running), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* running = static_cast<volatile Running*>(shared);
  for (size_t next = 0; next < schemas.size(); next = running->schema + 1) {
    running->schema = next;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (size_t k = next; k < schemas.size(); ++k) {
        running->schema = k;
        // The limit is on processor time, so that it holds on a busy machine too.
        const itimerval limit = {{0, 0}, {kSecondsAnOperator, 0}};
        setitimer(ITIMER_PROF, &limit, nullptr);
        RunCalls(*schemas[k], CallsAnOperator(), &running->call);
      }
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    const FunctionSchema& schema = *schemas[running->schema];
    HostileCall call = KthCall(schema, running->call);
    EXPECT_TRUE(call.Make());
    const bool hangs = WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF;
    ADD_FAILURE() << schema.op.full() << (hangs ? " hangs" : " crashes") << " on\n" << PrintGraph(call.graph);
  }
  munmap(shared, sizeof(Running));
}

}  // namespace
}  // namespace smelt
