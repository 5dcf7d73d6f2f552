#include "smelt/runtime/testing/c_bundle.h"

#include "smelt/runtime/testing/hand_bundle.h"
#include "smelt/runtime/testing/methods_bundle.h"
#include "smelt/schema/bundle_signature.h"

const void* c_test_bundle(size_t* size) {
  static const std::string* const kBytes = [] {
    using namespace smelt;  // NOLINT: everything here is
    HandBundle b;
    const int n = b.Const(4);
    b.VectorArg("x", n);
    b.State("unused", {5, 6}, false);
    b.Output("x");
    b.Output("logits");
    b.raw().outputs[1]->node = "y";
    const Structure structure = {{StructureNode::Kind::kDict, StructureNode::Key::kIndex, "", false, "", 2},
                                 {StructureNode::Kind::kLeaf, StructureNode::Key::kName, "x", false, "", 0},
                                 {StructureNode::Kind::kLeaf, StructureNode::Key::kName, "logits", false, "", 0}};
    b.raw().result_structure = StructureTables(structure);
    HandPlan p = b.Plan();
    const int x = p.Vector(p.ArgSlot(0), n), y = p.Vector(p.FreshSlot(b.Const(16)), n);
    p.Launch(kRelu, n, x, x);
    p.Launch(kAddOne, n, x, y);
    p.Mutated(0, 1)->written = {x};
    p.raw().written_args = {0};
    p.Output(fb::OutputKind::IsArg, 0);
    p.Output(fb::OutputKind::Fresh, -1, y);
    return new std::string(b.Pack());
  }();
  *size = kBytes->size();
  return kBytes->data();
}

const void* c_methods_bundle(size_t* size) {
  static const std::string* const kBytes = new std::string(smelt::FillAndRead().Pack());
  *size = kBytes->size();
  return kBytes->data();
}
