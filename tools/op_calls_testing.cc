#include "smelt/tools/op_calls_testing.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/op/infer.h"
#include "smelt/core/op/schema.h"
#include "smelt/schema/bundle.h"
#include "smelt/schema/container.h"

namespace smelt {
namespace {

class Writer {
 public:
  Writer(CallProgram& p) : p_(p), g_(*p.graph) {}

  absl::StatusOr<ValueId> Argument(const AnswerValue& v, const Type& type) {
    const NodeId end = g_.block(g_.top()).return_node;
    switch (v.kind) {
      case OpArg::Kind::kNone:
        return InsertConstant(g_, end, std::monostate());
      case OpArg::Kind::kTensor: {
        for (const auto& [tensor, value] : made_) {
          if (tensor.IsSame(v.tensor)) return value;
        }
        const ValueId x =
            g_.AddInput(absl::StrCat("x", p_.args.size()),
                        Type::Tensor(v.tensor.dtype(), {v.tensor.sizes().begin(), v.tensor.sizes().end()}));
        made_.emplace_back(v.tensor, x);
        p_.args.push_back(Datum(v.tensor));
        return x;
      }
      case OpArg::Kind::kInt:
        return InsertConstant(g_, end, v.i);
      case OpArg::Kind::kFloat:
        return InsertConstant(g_, end, v.f);
      case OpArg::Kind::kBool:
        return InsertConstant(g_, end, v.i != 0);
      case OpArg::Kind::kComplex:
        return InsertConstant(g_, end, v.c);
      case OpArg::Kind::kIntList:
        return InsertConstant(g_, end, v.ints);
      case OpArg::Kind::kFloatList:
        return InsertConstant(g_, end, v.floats);
      case OpArg::Kind::kBoolList:
        return InsertConstant(g_, end, v.bools);
      case OpArg::Kind::kString:
        return InsertConstant(g_, end, v.string);
      case OpArg::Kind::kTensorList: {
        std::vector<ValueId> elements;
        for (const AnswerValue& e : v.list) {
          SMELT_ASSIGN_OR_RETURN(const ValueId x, Argument(e, Type::Tensor()));
          elements.push_back(x);
        }
        return g_.node(g_.Append(g_.top(), OpName::Get("prim::ListConstruct"), elements, {type})).outputs[0];
      }
      default:
        return InsertConstant(g_, end, std::string("cpu"));
    }
  }

 private:
  CallProgram& p_;
  Graph& g_;
  std::vector<std::pair<Tensor, ValueId>> made_;
};

}  // namespace

absl::StatusOr<CallProgram> ProgramOf(const Answer& answer) {
  const FunctionSchema* schema = FindSchema(answer.op);
  if (schema == nullptr) return absl::UnimplementedError("no schema");
  CallProgram p;
  p.graph = std::make_unique<Graph>();
  Graph& g = *p.graph;
  Writer writer(p);
  std::vector<ValueId> args;
  for (size_t k = 0; k < answer.args.size(); ++k) {
    SMELT_ASSIGN_OR_RETURN(const ValueId v, writer.Argument(answer.args[k], schema->arguments[k].type));
    args.push_back(v);
  }
  std::vector<Type> types;
  for (const Argument& r : schema->returns) {
    if (!r.type.IsTensor()) return absl::UnimplementedError("a result that is no tensor");
    types.push_back(Type::Tensor());
  }
  const NodeId n = g.Append(g.top(), answer.op, args, types);
  SMELT_RETURN_IF_ERROR(InferTypes(g));
  const std::vector<ValueId> outputs(g.node(n).outputs.begin(), g.node(n).outputs.end());
  for (ValueId v : outputs) g.AddOutput(v);
  for (size_t k = 0; k < g.inputs().size(); ++k) g.input_infos[k].kind = InputInfo::Kind::kUser;
  return p;
}

absl::Status KeepEagerOrderPlan(const std::string& bundle_path) {
  SMELT_ASSIGN_OR_RETURN(auto file, Container::Open(bundle_path, ContentKind::kBundle));
  SMELT_ASSIGN_OR_RETURN(auto bundle, LoadBundle(*file));
  auto& plans = bundle->plans;
  plans.erase(std::remove_if(plans.begin(), plans.end(),
                             [](const auto& p) { return p->variant != fb::VariantKind::EagerOrder; }),
              plans.end());
  if (plans.empty()) return absl::UnimplementedError("no eager-order plan");
  SMELT_ASSIGN_OR_RETURN(ContainerWriter writer, ContainerWriter::Create(bundle_path, ContentKind::kBundle));
  for (size_t k = 0; k < file->segments().size(); ++k) {
    const Segment& s = file->segments()[k];
    if (s.kind == SegmentKind::kMetadata) {
      SMELT_RETURN_IF_ERROR(writer.Add(s.kind, EncodeBundle(*bundle)).status());
    } else {
      SMELT_RETURN_IF_ERROR(writer.Add(s.kind, file->bytes(static_cast<int>(k))).status());
    }
  }
  return writer.Finish();
}

}  // namespace smelt
