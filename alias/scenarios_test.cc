// What shares memory and who writes it, a scenario each.
#include "gtest/gtest.h"
#include "smelt/alias/scenario.h"

namespace smelt {
namespace {

// --- loops

TEST(LoopTest, AViewOfWhatOnlyComesAroundTheBackEdgeSharesItsMemory) {
  // On the first visit %p has no memory at all: an element of an empty list.
  Expect(R"(graph(%x : Tensor, %n : int):
  %0 : int = prim::Constant[value=0]()
  %true : bool = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %l : Tensor[] = prim::ListConstruct()
  %e : Tensor = aten::__getitem__(%l, %0)
  %o : Tensor = prim::Loop(%n, %true, %e)
    block0(%i : int, %p : Tensor):
      %v : Tensor = aten::diagonal(%p, %0, %0, %0)
      %r : Tensor = aten::bernoulli(%x, %none)
      %w : Tensor = aten::select(%v, %0, %0)
      -> (%true, %r)
  return (%o)
)",
         R"(may_alias %p %w: true
            may_alias %r %w: false
            may_alias %x %w: false)");
}

TEST(LoopTest, AnElementThatMovesAtTheEndOfAnIterationIsSeenThereByTheNext) {
  Expect(R"(graph(%l : Tensor[], %x : Tensor, %n : int):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %same : Tensor[] = aten::_set_item(%l, %1, %x)
  %f : Tensor = aten::relu(%x)
   = prim::Loop(%n, %true)
    block0(%i : int):
      %e : Tensor = aten::__getitem__(%same, %0)
      %v : Tensor = aten::select(%e, %0, %0)
      %w : Tensor = aten::relu_(%v)
      %t : Tensor = aten::set_(%e, %f)
      -> (%true)
  return ()
)",
         R"(may_alias %f %v: true
            writes_to_alias_of %w %f: true
            has_writers %f: true)");
}

TEST(LoopTest, AListOfAnEarlierIterationWasShuffledWhenTheNextOneReadsIt) {
  Expect(R"(graph(%x : Tensor, %n : int):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %first : Tensor[] = prim::ListConstruct(%a, %a)
  %o : Tensor[] = prim::Loop(%n, %true, %first)
    block0(%i : int, %p : Tensor[]):
      %e : Tensor = aten::__getitem__(%p, %0)
      %l : Tensor[] = prim::ListConstruct(%a, %b)
      %before : Tensor = aten::__getitem__(%l, %0)
       = aten::reverse(%l)
      -> (%true, %l)
  return (%o)
)",
         R"(may_alias %e %b: true
            may_alias %before %b: false)");
}

TEST(LoopTest, WhatALaterLoopStoresIsNotReadBefore) {
  Expect(R"(graph(%x : Tensor, %n : int):
  %0 : int = prim::Constant[value=0]()
  %true : bool = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
   = prim::Loop(%n, %true)
    block0(%i : int):
      %e : Tensor = aten::__getitem__(%l, %0)
      -> (%true)
   = prim::Loop(%n, %true)
    block0(%j : int):
      %s : Tensor[] = aten::append(%l, %b)
      %f : Tensor = aten::__getitem__(%l, %j)
      -> (%true)
  return ()
)",
         R"(may_alias %b %e: false
            may_alias %b %f: true)");
}

}  // namespace
}  // namespace smelt
