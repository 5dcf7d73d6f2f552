// Prints docs/operators.md: bazel run //core/op:print_operators > docs/operators.md
#include <cstdio>
#include <string>

#include "smelt/core/op/operators_doc.h"

int main() {
  const std::string text = smelt::OperatorsMarkdown();
  std::fwrite(text.data(), 1, text.size(), stdout);
}
