// Queries to the alias database as lines of text, for tests and for the command line.
//
//   may_alias %a %b              may_contain_alias %a %b        must_alias %a %b
//   has_writers %a               writes_to_alias_of %n %a       safe_to_change_aliasing %a %b
//   can_move_before %n %m        can_move_after %n %m
//   why_alias %a %b              why_move_before %n %m          why_move_after %n %m
//
// %n names the node that defines %n; @K is the K-th node, from 0, in pre-order.
#ifndef SMELT_ALIAS_QUERY_TEXT_H_
#define SMELT_ALIAS_QUERY_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "smelt/alias/alias_db.h"

namespace smelt {

// Answers one line per query: "true", "false" or "error: ...". why_alias answers like may_contain_alias, and if true
// adds the path to the memory that both share. why_move_* answers like can_move_*, and if false adds the obstacle:
// "true: ...", "false: ...". Empty lines and lines that begin with # get no answer.
std::string AnswerAliasQueries(const AliasDb& db, absl::string_view queries);

}  // namespace smelt

#endif  // SMELT_ALIAS_QUERY_TEXT_H_
