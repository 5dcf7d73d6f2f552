// Attributes in the text form. Private to core/ir; docs/text_form.md has the grammar.
#ifndef SMELT_CORE_IR_ATTRIBUTE_TEXT_H_
#define SMELT_CORE_IR_ATTRIBUTE_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "smelt/core/ir/cursor.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

// Reads the value of an attribute, up to the ',' or ']' that ends it. `hint`, if given, is the type of the constant
// that has the attribute as its value: PyTorch prints true as 1, an empty list without its kind and one-element tensors
// without geometry. A graph ("<Graph>") is read as a null std::shared_ptr<Graph>.
absl::StatusOr<Attribute> ParseAttribute(Cursor& cursor, const Type* hint);

// Appends text that ParseAttribute reads back to an equal attribute with the same hint.
void AppendAttribute(const Attribute& attribute, const Type* hint, std::string& out);

}  // namespace smelt

#endif  // SMELT_CORE_IR_ATTRIBUTE_TEXT_H_
