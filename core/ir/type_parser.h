// The parser behind Type::Parse, for parsers of text that contains types. Private to core/ir and core/op.
#ifndef SMELT_CORE_IR_TYPE_PARSER_H_
#define SMELT_CORE_IR_TYPE_PARSER_H_

#include "absl/status/statusor.h"
#include "smelt/core/ir/alias_info.h"
#include "smelt/core/ir/cursor.h"
#include "smelt/core/ir/type.h"

namespace smelt {

struct TypeParseOptions {
  int max_depth = 200;
  // If null, parentheses after a tensor type are its geometry, `Float(4, 8)`. Otherwise they are an alias annotation as
  // in schemas, `Tensor(a!)`, which is stored here.
  AliasInfo* alias = nullptr;
  // Counts the sets of annotations that are a lone '!'. May be null.
  int* fresh_sets = nullptr;
};

// Reads one type from the cursor's position, and no further.
absl::StatusOr<Type> ParseType(Cursor& cursor, const TypeParseOptions& options = {});

// Parses a size: "4", "*" (poison), "2*s0 + 1", "SS(-2)"; up to the ',', ')' or ']' that ends it.
absl::StatusOr<Expr> ParseSizeExpr(Cursor& cursor);
// Prints a size, "*" for poison.
std::string SizeToText(const Expr& e);

}  // namespace smelt

#endif  // SMELT_CORE_IR_TYPE_PARSER_H_
