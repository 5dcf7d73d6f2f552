// Names that printer and parser must agree on. Private to core/ir.
#ifndef SMELT_CORE_IR_TEXT_NAMES_H_
#define SMELT_CORE_IR_TEXT_NAMES_H_

namespace smelt {

// Returns whether a character of a value's name needs no quotes: "%self.layer/Add_output_0".
bool IsPlainValueChar(char c);

}  // namespace smelt

#endif  // SMELT_CORE_IR_TEXT_NAMES_H_
