#include "smelt/core/op/operators_doc.h"

#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "smelt/core/op/decompose.h"
#include "smelt/core/op/op_info.h"
#include "smelt/core/op/schema.h"

namespace smelt {
namespace {

struct Section {
  OpKind kind;
  const char* title;
  const char* text;
};
constexpr Section kSections[] = {
    {OpKind::kPointwise, "Pointwise",
     "A scalar function each: the evaluator runs it, the code generators emit it, fusion joins it."},
    {OpKind::kReduction, "Reductions and scans",
     "Accumulators with a function before and one after; fused with what surrounds them."},
    {OpKind::kView, "Views", "The same memory through another geometry."},
    {OpKind::kInplace, "In-place", "The functional operator's value, copied into the first argument."},
    {OpKind::kInplaceView, "In-place views", "Change the geometry of their argument."},
    {OpKind::kOut, "Out variants", "The functional operator's values, copied into the arguments named as results."},
    {OpKind::kFactory, "Factories", "Make tensors from sizes and numbers."},
    {OpKind::kMovement, "Movement", "Pick, place or join elements."},
    {OpKind::kLibrary, "Library", "Left to a library or a loop of their own."},
    {OpKind::kComposite, "Composites", "Rewritten into simpler operators."},
    {OpKind::kRandom, "Random", "Draw from a generator. The distributions are PyTorch's, the numbers are not."},
    {OpKind::kScalar, "Python numbers", "Sizes and arithmetic outside tensors."},
    {OpKind::kContainer, "Containers", "Lists, tuples, dictionaries."},
    {OpKind::kOther, "Others", ""},
};

}  // namespace

std::string OperatorsMarkdown() {
  std::map<OpKind, std::map<std::string, std::vector<std::string>>> by_kind;
  std::map<OpKind, int> counts;
  int total = 0;
  for (OpName op : DescribedOps()) {
    const OpInfo& info = GetOpInfo(op);
    absl::string_view name = op.name();
    if (!absl::ConsumePrefix(&name, "aten::") && !absl::StartsWith(name, "quantized_decomposed::")) continue;
    // A composite nobody can take apart is not supported.
    if (info.kind == OpKind::kComposite && !info.decomposes) continue;
    by_kind[info.kind][std::string(name)].push_back(op.overload());
    ++counts[info.kind];
    ++total;
  }
  std::string text =
      absl::StrCat("# Operators\n\nWhat `core/op` describes: ", total,
                   " overloads of PyTorch's operators, aten's by their bare names. Made by `core/op:print_operators`; "
                   "a test compares.\nA name without a bracket has one overload, the default one; `default` in a "
                   "bracket is that one.\n"
                   "What is described is not yet compiled everywhere: `smelt compile` names what it cannot do.\n");
  for (const Section& s : kSections) {
    if (counts[s.kind] == 0) continue;
    absl::StrAppend(&text, "\n## ", s.title, " (", counts[s.kind], ")\n\n");
    if (s.text[0] != '\0') absl::StrAppend(&text, s.text, "\n\n");
    std::string line;
    for (const auto& [name, overloads] : by_kind[s.kind]) {
      std::string word = absl::StrCat("`", name, "`");
      if (overloads.size() > 1 || !overloads[0].empty()) {
        word += " (";
        for (size_t i = 0; i < overloads.size(); ++i) {
          absl::StrAppend(&word, i > 0 ? ", " : "", overloads[i].empty() ? "default" : overloads[i]);
        }
        word += ")";
      }
      if (!line.empty() && line.size() + word.size() > 118) {
        absl::StrAppend(&text, line, "\n");
        line.clear();
      }
      absl::StrAppend(&line, line.empty() ? "" : " ", word);
    }
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace smelt
