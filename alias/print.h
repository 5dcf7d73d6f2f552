// Prints the database as text: for readers, in a stable order, and as JSON. Private to alias/.
//
//   PrintText(db, state);  // "values:\n  %v : Tensor -> {%v} in {%x}\n ..."
//
// No work is pending. `state` is the inside of `db`. Names depend on the graph alone, so the databases of two equal graphs
// print alike.
#ifndef SMELT_ALIAS_PRINT_H_
#define SMELT_ALIAS_PRINT_H_

#include <string>

#include "smelt/alias/alias_db.h"

namespace smelt {
namespace alias_internal {

std::string PrintText(const AliasDb& db, AliasDb::State& s);  // locations, values' sets, writers
std::string PrintJson(const AliasDb& db,
                      AliasDb::State& s);  // locations, each value's set, each node's reads and writes

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_PRINT_H_
