// Writes docs/operators.md, the list of described operators.
#ifndef SMELT_CORE_OP_OPERATORS_DOC_H_
#define SMELT_CORE_OP_OPERATORS_DOC_H_

#include <string>

namespace smelt {

std::string OperatorsMarkdown();

}  // namespace smelt

#endif  // SMELT_CORE_OP_OPERATORS_DOC_H_
