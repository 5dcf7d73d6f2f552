// Names of objects and nodes, for pictures, explanations and comparisons. Private to alias/.
//
//   words.RefName(r);  // "%x", "%l[0]", "weight storage 3", "%x of an earlier iteration"
//
// Names depend on the graph alone, so two databases of one graph name an object alike.
#ifndef SMELT_ALIAS_WORDS_H_
#define SMELT_ALIAS_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/set_pool.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

enum class ObjectKind : uint8_t;

const char* KindName(ObjectKind k);
std::string Json(absl::string_view s);
// In program order: inputs, then each node's outputs and, before their nodes, its blocks' parameters.
std::vector<ValueId> AllValues(const Graph& g);

class Words {
 public:
  explicit Words(const AliasDb::State& s) : s_(s) {}
  std::string DescribeNode(NodeId n) const;
  std::string ObjectName(uint32_t object) const;
  std::string RefName(Ref r) const;
  std::vector<std::string> Names(SetId set) const;  // sorted

 private:
  const AliasDb::State& s_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_WORDS_H_
