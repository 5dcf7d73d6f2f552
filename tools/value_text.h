// Results of a call for people and for programs.
#ifndef SMELT_TOOLS_VALUE_TEXT_H_
#define SMELT_TOOLS_VALUE_TEXT_H_

#include <string>

#include "nlohmann/json.hpp"
#include "smelt/runtime/value.h"

namespace smelt {

// "float32 [2, 3]\n[[1, 2, 3],\n [4, 5, 6]]", "3", "None". Of a tensor with over a thousand elements the first and last
// three of each dim are printed.
std::string ValueText(const Datum& value);

// A value that is no tensor, as a case file has it (docs/case_files.md): {"int": 3}. JSON has no words for NaN and the
// infinities, which become texts.
nlohmann::ordered_json ScalarJson(const Datum& value);
// {"kind": "tensor", "dtype": "float32", "sizes": [2, 3], "values": [...]} with the elements in row-major order, or
// {"kind": "int", "value": 3}.
nlohmann::ordered_json ValueJson(const Datum& value);

}  // namespace smelt

#endif  // SMELT_TOOLS_VALUE_TEXT_H_
