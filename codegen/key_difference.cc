#include "smelt/codegen/key_difference.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/fuser/kernel_spec.h"

namespace smelt {
namespace {

struct KeyParts {
  std::string target, generator, spec;
};
KeyParts Split(absl::string_view text) {
  KeyParts out;
  const std::vector<absl::string_view> lines = absl::StrSplit(text, absl::MaxSplits('\n', 3));
  if (lines.size() != 4) return {"", "", std::string(text)};
  out.target = std::string(absl::StripPrefix(lines[0], "target "));
  out.generator = std::string(absl::StripPrefix(lines[1], "generator "));
  out.spec = std::string(lines[3]);
  return out;
}

std::string Strides(const KernelParam& p) {
  return absl::StrCat(
      "[", absl::StrJoin(p.strides, ",", [](std::string* out, StrideClass c) { absl::StrAppend(out, Name(c)); }), "]");
}
std::string Access(const KernelParam& p) {
  return p.is_read && p.is_written ? "read and written" : p.is_written ? "written" : p.is_read ? "read" : "unused";
}

class Comparison {
 public:
  std::vector<KeyDifference> out;

  void Add(absl::string_view part, absl::string_view where, absl::string_view wanted, absl::string_view cached) {
    if (wanted == cached) return;
    out.push_back({std::string(part), std::string(where), std::string(wanted), std::string(cached)});
  }
  void Number(absl::string_view part, absl::string_view where, int64_t wanted, int64_t cached) {
    Add(part, where, absl::StrCat(wanted), absl::StrCat(cached));
  }

  void Specs(const KernelSpec& w, const KernelSpec& c) {
    auto rank = [](const KernelSpec& s) { return absl::StrCat(s.parallel_rank, " parallel + ", s.reduction_rank); };
    Add("rank", "", rank(w), rank(c));
    Number("vector dim", "", w.vector_dim, c.vector_dim);
    Add("order", "", w.sequential ? "sequential" : "any", c.sequential ? "sequential" : "any");
    Number("param count", "", static_cast<int64_t>(w.params.size()), static_cast<int64_t>(c.params.size()));
    for (size_t i = 0; i < std::min(w.params.size(), c.params.size()); ++i) {
      const std::string where = absl::StrCat("param ", i);
      Add("dtype", where, Name(w.params[i].dtype), Name(c.params[i].dtype));
      Add("access", where, Access(w.params[i]), Access(c.params[i]));
      Add("stride class", where, Strides(w.params[i]), Strides(c.params[i]));
      Number("alias class", where, w.params[i].alias_class, c.params[i].alias_class);
    }
    Add("scalar", "", Scalars(w), Scalars(c));
    Number("length", "", static_cast<int64_t>(w.instrs.size()), static_cast<int64_t>(c.instrs.size()));
    for (size_t i = 0; i < std::min(w.instrs.size(), c.instrs.size()); ++i) Instrs(i, w.instrs[i], c.instrs[i]);
    Add("phases", "", Phases(w), Phases(c));
  }

 private:
  static std::string Scalars(const KernelSpec& s) {
    return absl::StrJoin(s.scalars, ",", [](std::string* out, DType t) { absl::StrAppend(out, Name(t)); });
  }
  static std::string Phases(const KernelSpec& s) {
    return absl::StrJoin(s.phases, ", ", [](std::string* out, const KernelPhase& p) {
      absl::StrAppend(out, p.inner ? "inner" : "outer", " of ", p.instrs.size());
    });
  }
  // The instruction as ToString prints it, without its number, dtype, operands and constant.
  static std::string Operation(const KernelInstr& in) {
    KernelSpec one;
    one.instrs = {in};
    one.instrs[0].operands.clear();
    const std::string text = one.ToString();
    const size_t at = text.find("%0 = ") + 5;
    std::string op = text.substr(at, text.find(' ', at) - at);
    if (in.op == KernelOp::kIndex || in.op == KernelOp::kDimSize || in.op == KernelOp::kScalarParam)
      op = op.substr(0, op.find('.'));
    if (in.has_offset) op += " at an offset";
    if (in.has_guard) op += " under a guard";
    return op;
  }
  static std::string Constant(const KernelInstr& in) {
    if (in.op != KernelOp::kScalar || in.scalar != ScalarOp::kConst) return "";
    KernelSpec one;
    one.instrs = {in};
    const std::string text = one.ToString();
    const size_t at = text.find("const ");
    return text.substr(at + 6, text.find('\n', at) - at - 6);
  }
  void Instrs(size_t i, const KernelInstr& w, const KernelInstr& c) {
    const std::string where = absl::StrCat("%", i);
    Add("operation", where, Operation(w), Operation(c));
    Add("dtype", where, Name(w.type), Name(c.type));
    if (w.type == c.type) Add("constant", where, Constant(w), Constant(c));
    auto operands = [](const KernelInstr& in) {
      return absl::StrJoin(in.operands, " ", [](std::string* out, int o) { absl::StrAppend(out, "%", o); });
    };
    Add("operands", where, operands(w), operands(c));
    if (w.op == c.op) Number("dim", where, w.dim, c.dim);
  }
};

}  // namespace

std::string KeyDifference::ToString() const {
  auto or_none = [](const std::string& s) { return s.empty() ? std::string("none") : s; };
  return absl::StrCat(part, where.empty() ? "" : " of ", where, ": ", or_none(wanted), ", cached ", or_none(cached));
}

std::vector<KeyDifference> CompareKeys(absl::string_view wanted, absl::string_view cached) {
  Comparison comparison;
  const KeyParts w = Split(wanted), c = Split(cached);
  comparison.Add("target", "", w.target, c.target);
  comparison.Add("code generator", "", w.generator, c.generator);
  if (w.spec == c.spec) return comparison.out;
  const absl::StatusOr<KernelSpec> ws = ParseKernelSpec(w.spec), cs = ParseKernelSpec(c.spec);
  const size_t before = comparison.out.size();
  if (ws.ok() && cs.ok()) comparison.Specs(*ws, *cs);
  // The key was written by another smelt, or differs in a part that has no word here: the texts differ all the same.
  if (comparison.out.size() == before) comparison.Add("spec", "", "its text", "another text");
  return comparison.out;
}

}  // namespace smelt
