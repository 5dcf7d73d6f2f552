// Questions to the alias database as lines of text, for tests and for the command line.
//
//   may_alias %a %b              may_contain_alias %a %b        must_alias %a %b
//   has_writers %a               writes_to_alias_of %n %a       (%n names the node that defines %n; @K the K-th node,
//   from 0) can_move_before %n %m        can_move_after %n %m           safe_to_change_aliasing %a %b
#ifndef SMELT_ALIAS_QUERY_TEXT_H_
#define SMELT_ALIAS_QUERY_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "smelt/alias/alias_db.h"

namespace smelt {

// One line a query: "true", "false" or "error: ...". Empty lines and those that begin with # are answered by nothing.
std::string AnswerAliasQueries(const AliasDb& db, absl::string_view queries);

}  // namespace smelt

#endif  // SMELT_ALIAS_QUERY_TEXT_H_
