// For tests: a bundle whose two methods have a state in common.
#ifndef SMELT_RUNTIME_TESTING_METHODS_BUNDLE_H_
#define SMELT_RUNTIME_TESTING_METHODS_BUNDLE_H_

#include "smelt/runtime/testing/hand_bundle.h"

namespace smelt {

// fill(x): cache.copy_(x), for 3 floats.
inline HandBundle Fill() {
  HandBundle b;
  const int n = b.Const(3);
  b.VectorArg("x", n);
  const int cache = b.State("cache", {1, 2, 3}, true);
  HandPlan p = b.Plan();
  const int x = p.Vector(p.ArgSlot(0), n), state = p.Vector(p.StateSlot(cache), n);
  p.Copy(x, state, true);
  p.Mutated(cache, static_cast<int>(fb::MutationKind::Data), -1, true)->written = {state};
  p.raw().written_states = {cache};
  return b;
}

// read(rows): cache + 1, and the number of rows; its one symbol has the number of none in fill.
inline HandBundle Read() {
  HandBundle b;
  const int rows = b.Symbol("rows", fb::SymbolSource::ArgSize, 0, 0);
  b.VectorArg("of", rows);
  const int n = b.Const(3);
  const int cache = b.State("cache", {1, 2, 3}, true);
  b.Output("sum");
  b.Output("rows", fb::ArgKind::Int);
  HandPlan p = b.Plan();
  const int state = p.Vector(p.StateSlot(cache), n), out = p.Vector(p.FreshSlot(b.Const(12)), n);
  p.Launch(kAddOne, n, state, out);
  p.Output(fb::OutputKind::Fresh, -1, out);
  p.Output(fb::OutputKind::Scalar)->expr = rows;
  return b;
}

inline HandBundle FillAndRead() {
  HandBundle b;
  b.State("cache", {1, 2, 3}, true);
  b.Method("fill", Fill());
  b.Method("read", Read());
  return b;
}

}  // namespace smelt

#endif  // SMELT_RUNTIME_TESTING_METHODS_BUNDLE_H_
