// Draws the database: the memory graph in DOT, and beside the text as HTML. Private to alias/.
//
//   DrawDot(state);   // values, the objects that they hold, and where those live, for Graphviz
//   DrawHtml(state);  // the text with its writers marked, and an edge from each value to each of its locations
//
// No work is pending.
#ifndef SMELT_ALIAS_PICTURE_H_
#define SMELT_ALIAS_PICTURE_H_

#include <string>

#include "smelt/alias/alias_db.h"

namespace smelt {
namespace alias_internal {

std::string DrawDot(AliasDb::State& s);
std::string DrawHtml(AliasDb::State& s);

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_PICTURE_H_
