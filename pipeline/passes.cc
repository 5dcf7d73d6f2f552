#include "smelt/pipeline/passes.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "smelt/alias/alias_pass.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/new_geometry.h"
#include "smelt/functionalize/open_composites.h"
#include "smelt/fuser/choose_layouts.h"
#include "smelt/fuser/expand_composites.h"
#include "smelt/fuser/forward_regions.h"
#include "smelt/fuser/fuse.h"
#include "smelt/fuser/lay_rows.h"
#include "smelt/fuser/merge_matmuls.h"
#include "smelt/fuser/move_reshapes.h"
#include "smelt/fuser/overlay_regions.h"
#include "smelt/fuser/split_reductions.h"
#include "smelt/script/complete_input_types.h"
#include "smelt/script/flatten_outputs.h"
#include "smelt/script/infer_script_types.h"
#include "smelt/script/replace_script_operators.h"
#include "smelt/script/resolve_dicts.h"
#include "smelt/script/resolve_lists.h"
#include "smelt/script/resolve_numbers.h"
#include "smelt/script/resolve_tuples.h"
#include "smelt/script/simplify_script.h"

namespace smelt {
namespace {

struct Line {
  PassGroup group;
  Pass pass;
};

std::vector<Line> Order() {
  using G = PassGroup;
  return {
      {G::kScript, ReplaceScriptOperatorsPass()},  // a message that is gone needs nothing resolved
      {G::kScript, ResolveNumbersPass()},          // conditions on sizes are integers from here on
      {G::kScript, SimplifyScriptPass()},          // fills lists that the next passes resolve
      {G::kScript, ResolveTuplesPass()},           // tuples may carry dictionaries and lists
      {G::kScript, ResolveDictsPass()},            // entries may be lists
      {G::kScript, ResolveListsPass()},            // inference wants to know the elements
      {G::kScript, CompleteInputTypesPass()},      // inference starts from the inputs
      {G::kScript, UseNewGeometriesPass()},        // inference gives each value one type
      {G::kScript, InferTypesPass()},              // what follows asks for types
      {G::kScript, ReturnElementsPass()},          // types tell how many elements a result has
      {G::kOpen, MergeDuplicatesPass()},           // one name sees the geometry that another changes
      {G::kOpen, OpenCompositesPass()},            // the schema of every node says what it does to memory
      {G::kPure, BuildAliasDbPass()},              // while nodes still write; it follows all later edits
      {G::kPure, FunctionalizePass()},             // from here on VerifyFunctional holds
      {G::kExpand, ExpandCompositesPass()},        // a whole softmax is one node while aliasing is decided
      {G::kFuse, MergeMatmulsPass()},              // a view between matmuls would part groups
      {G::kFuse, ForwardRegionsPass()},            // fewer memories for the next passes to respect
      {G::kFuse, MoveReshapesPass()},              // loops that could be one get one shape
      {G::kFuse, SplitReductionsPass()},           // each part joins a group of its own
      {G::kFuse, OverlayRegionsPass()},            // asks what a kernel will make, as the passes before leave it
      {G::kFuse, FusePass()},                      // forms the groups
      {G::kLayout, ChooseLayoutsPass()},           // groups say which values only convolutions and kernels see
      {G::kLayout, LayRowsPass()},                 // transposes what the layouts before leave across rows
  };
}

}  // namespace

PassPipeline PassesOf(std::initializer_list<PassGroup> groups) {
  PassPipeline pipeline;
  for (Line& line : Order()) {
    if (absl::c_linear_search(groups, line.group)) pipeline.Add(std::move(line.pass));
  }
  return pipeline;
}

PassPipeline AllPasses() {
  PassPipeline passes = PassesOf({PassGroup::kScript});
  passes.Append(CompilePasses());
  return passes;
}

PassPipeline CompilePasses() {
  return PassesOf({PassGroup::kOpen, PassGroup::kPure, PassGroup::kExpand, PassGroup::kFuse, PassGroup::kLayout});
}

}  // namespace smelt
