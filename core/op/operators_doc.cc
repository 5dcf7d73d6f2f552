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
     "Each is one scalar function: the evaluator runs it, code generators emit it, fusion joins it."},
    {OpKind::kReduction, "Reductions and scans",
     "Accumulators with a function before and a function after; they fuse with their surroundings."},
    {OpKind::kView, "Views", "The same memory through another geometry."},
    {OpKind::kInplace, "In-place", "They copy the value of the functional operator into the first argument."},
    {OpKind::kInplaceView, "In-place views", "They change the geometry of their argument."},
    {OpKind::kOut, "Out variants",
     "They copy the values of the functional operator into the arguments that are named as results."},
    {OpKind::kFactory, "Factories", "They make tensors from sizes and numbers."},
    {OpKind::kMovement, "Movement", "They select, place or join elements."},
    {OpKind::kLibrary, "Library", "A library or a loop of its own computes each of them."},
    {OpKind::kComposite, "Composites", "They are decomposed into simpler operators."},
    {OpKind::kRandom, "Random", "They draw from a generator, with PyTorch's distributions but not its numbers."},
    {OpKind::kScalar, "Python numbers", "Sizes and arithmetic outside tensors."},
    {OpKind::kContainer, "Containers", "Lists, tuples, dictionaries."},
    {OpKind::kOther, "Others", ""},
};

// Appends words to a text, in lines of at most 95 characters.
class Lines {
 public:
  explicit Lines(std::string* text) : text_(*text) {}
  void Add(const std::string& word) {
    if (!line_.empty() && line_.size() + 1 + word.size() > 95) End();
    absl::StrAppend(&line_, line_.empty() ? "" : " ", word);
  }
  void End() {
    absl::StrAppend(&text_, line_, "\n");
    line_.clear();
  }

 private:
  std::string& text_;
  std::string line_;
};

}  // namespace

std::string OperatorsMarkdown() {
  std::map<OpKind, std::map<std::string, std::vector<std::string>>> by_kind;
  std::map<OpKind, int> counts;
  int total = 0;
  for (OpName op : DescribedOps()) {
    const OpInfo& info = GetOpInfo(op);
    absl::string_view name = op.name();
    if (!absl::ConsumePrefix(&name, "aten::") && !absl::StartsWith(name, "quantized_decomposed::") &&
        !absl::StartsWith(name, "torchvision::") && !absl::StartsWith(name, "torchao::"))
      continue;
    // A composite without a decomposition is not supported.
    if (info.kind == OpKind::kComposite && !info.decomposes) continue;
    by_kind[info.kind][std::string(name)].push_back(op.overload());
    ++counts[info.kind];
    ++total;
  }
  std::string text = absl::StrCat(
      "# Operators\n\n"
      "`core/op` describes ",
      total,
      " overloads of PyTorch's operators. This list names aten's without\n"
      "their namespace. `core/op:print_operators` writes it, and a test compares it.\n\n"
      "A name without brackets has one overload, the default one; `default` in brackets is that one.\n"
      "Not every described operator can be compiled everywhere: `smelt compile` names those that it\n"
      "does not support.\n");
  for (const Section& s : kSections) {
    if (counts[s.kind] == 0) continue;
    absl::StrAppend(&text, "\n## ", s.title, " (", counts[s.kind], ")\n\n");
    if (s.text[0] != '\0') absl::StrAppend(&text, s.text, "\n\n");
    Lines lines(&text);
    for (const auto& [name, overloads] : by_kind[s.kind]) {
      const bool only_default = overloads.size() == 1 && overloads[0].empty();
      lines.Add(absl::StrCat("`", name, "`"));
      for (size_t i = 0; i < overloads.size() && !only_default; ++i) {
        lines.Add(absl::StrCat(i == 0 ? "(" : "", overloads[i].empty() ? "default" : overloads[i],
                               i + 1 < overloads.size() ? "," : ")"));
      }
    }
    lines.End();
  }
  return text;
}

}  // namespace smelt
