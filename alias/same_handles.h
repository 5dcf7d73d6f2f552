// Which values and handles are certainly the same one, or views that are made alike. Private to alias/.
//
//   SameHandles same(state);
//   same.Original(v);  // the argument that v's node returns, and so on
//   int left = kManyComparisons;
//   same.SameView(a, b, 0, &left);
//
// *left is the number of views and arguments that a question may still compare. Below 0 the answer is "no", so each
// question costs O(kManyComparisons). Invariant: what is remembered about a value or an object is of the state's current
// edit.
#ifndef SMELT_ALIAS_SAME_HANDLES_H_
#define SMELT_ALIAS_SAME_HANDLES_H_

#include <cstdint>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace alias_internal {

class SameHandles {
 public:
  explicit SameHandles(AliasDb::State& s) : s_(s) {}

  // Returns the value that v certainly is, if its node returns its argument, as add_ and casts do. A long chain is not
  // followed to its start.
  ValueId Original(ValueId v);
  // Returns the handle that this one is a view of with exactly the same bytes and geometry, or the handle itself if none
  // is known.
  uint32_t SameHandle(uint32_t object, int* left);
  // Returns whether two values are one handle, whichever it is, or views made alike of one. They are in scope together.
  bool SameView(ValueId a, ValueId b, int depth, int* left);
  // Returns whether two handles are views made alike of the same thing.
  bool SameByStructure(uint32_t a, uint32_t b, int depth, int* left);
  // Returns whether the object stands for one handle, list or object at a time, not for several.
  bool IsOneHandle(uint32_t object) const;
  bool MayBeCopy(uint32_t object);  // a view, or in some runs a copy of what it is a view of
  bool IsWholeSlice(const Node& node) const;

  void ObjectsGetOtherNumbers() { whole_bases_.clear(); }
  int64_t bytes() const {
    return static_cast<int64_t>(original_steps_.capacity() * sizeof(OriginalStep) +
                                whole_bases_.capacity() * sizeof(WholeBase));
  }

 private:
  // One step of the search for the value that a value certainly is (Original), by value; valid until the next edit.
  struct OriginalStep {
    uint64_t edits = 0;
    ValueId of;  // the value that was asked about
    ValueId to;
    bool is_end = false;  // `to` is the result
  };
  // The base of an object that is a view of the whole of another handle, by object, as far as the text says so; invalid
  // if it does not. Valid until the next edit.
  struct WholeBase {
    uint64_t edits = 0;
    ValueId base;
  };
  OriginalStep StepToOriginal(ValueId v);
  ValueId WholeBaseOf(uint32_t object);
  bool SameArgument(ValueId a, ValueId b, int depth, int* left);  // at two nodes, whenever they run

  AliasDb::State& s_;
  std::vector<OriginalStep> original_steps_;
  std::vector<WholeBase> whole_bases_;
};

}  // namespace alias_internal
}  // namespace smelt

#endif  // SMELT_ALIAS_SAME_HANDLES_H_
