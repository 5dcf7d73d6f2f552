#include "smelt/alias/query_text.h"

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace smelt {

namespace {

class Queries {
 public:
  explicit Queries(const AliasDb& db) : db_(db), g_(db.graph()) {}

  std::string Answer(absl::string_view line) {
    std::vector<absl::string_view> words;
    for (absl::string_view w : absl::StrSplit(line, absl::ByAnyChar(" \t,"), absl::SkipEmpty())) words.push_back(w);
    const absl::string_view op = words[0];
    const bool one = op == "has_writers";
    const bool on_values = op == "may_alias" || op == "may_contain_alias" || op == "must_alias" ||
                           op == "safe_to_change_aliasing" || op == "why_alias";
    const bool before = op == "can_move_before" || op == "why_move_before";
    const bool moves = before || op == "can_move_after" || op == "why_move_after";
    if (!one && !on_values && !moves && op != "writes_to_alias_of")
      return absl::StrCat("error: unknown query \"", op, "\"");
    if (words.size() != (one ? 2 : 3)) {
      return absl::StrCat("error: ", op, " takes ", one ? "one argument" : "two arguments", ", not ", words.size() - 1);
    }
    if (one || on_values) {
      absl::StatusOr<ValueId> a = FindValue(words[1]);
      if (!a.ok()) return Error(a.status());
      if (one) return Bool(db_.HasWriters(*a));
      absl::StatusOr<ValueId> b = FindValue(words[2]);
      if (!b.ok()) return Error(b.status());
      if (op == "may_alias") return Bool(db_.MayAlias(*a, *b));
      if (op == "may_contain_alias") return Bool(db_.MayContainAlias(*a, *b));
      if (op == "must_alias") return Bool(db_.MustAlias(*a, *b));
      if (op == "why_alias") {
        const std::string reasons = absl::StrJoin(db_.Why(*a, *b), "; ");
        return Because(db_.MayContainAlias(*a, *b), reasons);
      }
      return Bool(db_.SafeToChangeAliasing(*a, *b));
    }
    absl::StatusOr<NodeId> n = FindNode(words[1]);
    if (!n.ok()) return Error(n.status());
    if (moves) {
      absl::StatusOr<NodeId> m = FindNode(words[2]);
      if (!m.ok()) return Error(m.status());
      std::string why;
      std::string* reason = absl::StartsWith(op, "why") ? &why : nullptr;
      const bool can = before ? db_.CanMoveBefore(*n, *m, reason) : db_.CanMoveAfter(*n, *m, reason);
      return Because(can, why);
    }
    absl::StatusOr<ValueId> v = FindValue(words[2]);
    if (!v.ok()) return Error(v.status());
    if (g_.IsParam(*n)) return Bool(false);
    return Bool(db_.WritesTo(*n, *v));
  }

 private:
  static std::string Bool(bool b) { return b ? "true" : "false"; }
  static std::string Because(bool b, absl::string_view why) {
    return absl::StrCat(Bool(b), why.empty() ? "" : ": ", why);
  }
  static std::string Error(const absl::Status& s) { return absl::StrCat("error: ", s.message()); }

  absl::StatusOr<ValueId> FindValue(absl::string_view name) const {
    absl::string_view bare = name;
    if (!absl::ConsumePrefix(&bare, "%"))
      return absl::InvalidArgumentError(absl::StrCat("expected a value such as %x, found \"", name, "\""));
    if (bare.size() >= 2 && bare.front() == '"' && bare.back() == '"') bare = bare.substr(1, bare.size() - 2);
    ValueId v = g_.FindValue(bare);
    if (!v.valid()) return absl::NotFoundError(absl::StrCat("there is no value ", name));
    return v;
  }

  absl::StatusOr<NodeId> FindNode(absl::string_view name) {
    absl::string_view bare = name;
    if (absl::ConsumePrefix(&bare, "@")) {
      if (!all_) all_ = g_.AllNodes();
      uint64_t k;
      if (bare.empty() || bare[0] == '+' || !absl::SimpleAtoi(bare, &k)) {
        return absl::InvalidArgumentError(absl::StrCat("expected a node such as @3, found \"", name, "\""));
      }
      if (k >= all_->size()) {
        return absl::NotFoundError(absl::StrCat("there is no node ", name, ": the graph has ", all_->size()));
      }
      return (*all_)[k];
    }
    absl::StatusOr<ValueId> v = FindValue(name);
    if (!v.ok()) return v.status();
    return g_.value(*v).def;
  }

  const AliasDb& db_;
  const Graph& g_;
  std::optional<std::vector<NodeId>> all_;
};

}  // namespace

std::string AnswerAliasQueries(const AliasDb& db, absl::string_view queries) {
  Queries q(db);
  std::string out;
  for (absl::string_view line : absl::StrSplit(queries, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    absl::StrAppend(&out, q.Answer(line), "\n");
  }
  return out;
}

}  // namespace smelt
