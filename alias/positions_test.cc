// Positions of views along dimensions whose sizes and bounds are computed, counted from the end, or unknown.
#include <memory>

#include "gtest/gtest.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/scenario.h"
#include "smelt/core/ir/graph.h"

namespace smelt {
namespace {

TEST(AsStridedTest, AnOffsetCountsFromTheStoragesBeginNotFromTheArgumentsFirstElement) {
  Expect(R"(graph(%x : Float(4, 4, strides=[4, 1])):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %4 : int = prim::Constant[value=4]()
  %s : int[] = prim::ListConstruct(%4)
  %t : int[] = prim::ListConstruct(%1)
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::as_strided(%x, %s, %t, %4)
  %a0 : Tensor = aten::as_strided(%x, %s, %t, %0)
  %an : Tensor = aten::as_strided(%x, %s, %t, %none)
  %r0 : Tensor = aten::select(%x, %0, %0)
  %r1 : Tensor = aten::select(%x, %0, %1)
  %w : Tensor = aten::relu_(%a)
  return (%r0)
)",
         R"(may_alias %a %r0: true
            may_alias %a %a0: false
            must_alias %a %r1: false
            may_alias %an %r1: false
            must_alias %an %r0: true
            has_writers %r0: true
            has_writers %a0: false)");
}

TEST(AsStridedTest, WithAnOffsetItIsPlacedWhateverItsBaseIs) {
  Expect(R"(graph(%x : Tensor):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %4 : int = prim::Constant[value=4]()
  %s : int[] = prim::ListConstruct(%4)
  %t : int[] = prim::ListConstruct(%1)
  %a : Tensor = aten::as_strided(%x, %s, %t, %4)
  %a0 : Tensor = aten::as_strided(%x, %s, %t, %0)
  %a1 : Tensor = aten::as_strided(%x, %s, %t, %1)
  %w : Tensor = aten::relu_(%a)
  return (%a0)
)",
         R"(may_alias %a %a0: false
            may_alias %a %a1: true
            may_alias %a0 %a1: true
            has_writers %a0: false)");
}

TEST(SliceTest, MeetInTheirBoundWhateverItsSign) {
  Expect(R"(graph(%x : Tensor, %n : int):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::slice(%x, %0, %none, %n, %1)
  %b : Tensor = aten::slice(%x, %0, %n, %none, %1)
  %z : Tensor = aten::zeros_like(%x, %none, %none, %none, %none, %none)
  %c : Tensor = aten::slice(%z, %0, %none, %n, %1)
  %d : Tensor = aten::slice(%z, %0, %n, %none, %1)
  %e : Tensor = aten::select(%z, %0, %n)
  %f : Tensor = aten::slice(%z, %0, %none, %n, %1)
  %w : Tensor = aten::relu_(%c)
  return (%d)
)",
         R"(may_alias %c %d: false
            may_alias %c %e: false
            may_alias %d %e: true
            must_alias %c %f: true
            has_writers %d: false
            has_writers %f: true
            may_alias %a %b: true)");
}

TEST(MustTest, AWholeSliceIsTheTensorItself) {
  Expect(R"(graph(%x : Tensor, %n : int):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %max : int = prim::Constant[value=9223372036854775807]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::slice(%x, %0, %none, %none, %1)
  %b : Tensor = aten::slice(%x, %0, %0, %max, %1)
  %c : Tensor = aten::slice(%b, %1, %0, %max, %1)
  %d : Tensor = aten::slice(%x, %0, %1, %max, %1)
  %e : Tensor = aten::alias(%x)
  %f : Tensor = aten::detach(%x)
  return (%a)
)",
         R"(must_alias %a %x: true
            must_alias %b %x: true
            must_alias %c %x: true
            must_alias %d %x: false
            must_alias %e %x: true
            must_alias %f %x: true)");
}

TEST(SizesTest, ANewTensorHasTheSizesItIsTold) {
  Expect(R"(graph(%n : int):
  %none : NoneType = prim::Constant()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %3 : int = prim::Constant[value=3]()
  %4 : int = prim::Constant[value=4]()
  %sz : int[] = prim::ListConstruct(%4, %4)
  %b : Tensor = aten::zeros(%sz, %none, %none, %none, %none)
  %d : Tensor = aten::diagonal(%b, %0, %0, %1)
  %lo : Tensor = aten::slice(%b, %0, %2, %none, %1)
  %q : Tensor = aten::slice(%lo, %1, %none, %2, %1)
  %f : int[] = prim::ListConstruct(%2, %2)
  %g : int[] = prim::ListConstruct(%4, %1)
  %p0 : Tensor = aten::as_strided(%b, %f, %g, %0)
  %p2 : Tensor = aten::as_strided(%b, %f, %g, %2)
  %p1 : Tensor = aten::as_strided(%b, %f, %g, %1)
  %l1 : int[] = prim::ListConstruct(%2, %2, %4)
  %v : Tensor = aten::view(%b, %l1)
  %v0 : Tensor = aten::select(%v, %0, %0)
  %r3 : Tensor = aten::select(%b, %0, %3)
  %r1 : Tensor = aten::select(%b, %0, %1)
  %w : Tensor = aten::relu_(%p0)
  return (%w)
)",
         R"(may_alias %d %q: false
            may_alias %p0 %p2: false
            may_alias %p0 %p1: true
            may_alias %v0 %r3: false
            may_alias %v0 %r1: true
            has_writers %p2: false
            has_writers %r3: false
            has_writers %r1: true)");
}

TEST(SliceTest, HalvesOfAComputedSizeAreDisjoint) {
  Expect(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %b : Tensor = aten::mul(%x, %x)
  %n : int = aten::size(%b, %0)
  %h : int = aten::floordiv(%n, %2)
  %r : int = aten::sub(%n, %h)
  %p : Tensor = aten::slice(%b, %0, %none, %h, %1)
  %q : Tensor = aten::slice(%b, %0, %h, %none, %1)
  %h1 : int = aten::add(%h, %1)
  %q1 : Tensor = aten::slice(%b, %0, %h1, %none, %1)
  %d : Tensor = aten::narrow(%b, %0, %0, %h)
  %e : Tensor = aten::narrow(%b, %0, %h, %r)
  %a : Tensor = aten::select(%b, %0, %h)
  return (%a)
)",
         R"(may_alias %p %q: false
            may_alias %p %q1: false
            may_alias %a %q1: false
            may_alias %d %e: false
            may_alias %p %e: false
            may_alias %d %a: false
            may_alias %q %e: true)");
}

TEST(SliceTest, BoundsFromTheEndMeetWithoutKnowingTheSize) {
  Expect(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %m1 : int = prim::Constant[value=-1]()
  %m2 : int = prim::Constant[value=-2]()
  %b : Tensor = aten::mul(%x, %x)
  %p : Tensor = aten::slice(%b, %0, %none, %m2, %1)
  %q : Tensor = aten::slice(%b, %0, %m2, %none, %1)
  %s : Tensor = aten::slice(%b, %0, %m1, %none, %1)
  %t : Tensor = aten::slice(%b, %0, %m2, %m1, %1)
  %l : Tensor = aten::select(%b, %0, %m1)
  %k : Tensor = aten::select(%b, %0, %m2)
  %i : Tensor = aten::slice(%b, %0, %1, %m1, %1)
  %f : Tensor = aten::select(%b, %0, %0)
  return (%q)
)",
         R"(may_alias %p %q: false
            may_alias %p %s: false
            may_alias %t %s: false
            may_alias %l %k: false
            may_alias %p %l: false
            may_alias %p %k: false
            may_alias %i %l: false
            may_alias %i %f: false
            may_alias %f %l: true
            may_alias %t %l: false
            may_alias %t %k: true
            may_alias %i %k: true)");
}

TEST(LoopTest, ViewsOfOtherShapesInEachIterationMayMeet) {
  Expect(R"(graph(%n : int):
  %none : NoneType = prim::Constant()
  %t : bool = prim::Constant[value=1]()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %m1 : int = prim::Constant[value=-1]()
  %8 : int = prim::Constant[value=24]()
  %sz : int[] = prim::ListConstruct(%8)
  %x : Tensor = aten::zeros(%sz, %none, %none, %none, %none)
  %x0 : Tensor = aten::zeros(%sz, %none, %none, %none, %none)
  %o : Tensor = prim::Loop(%n, %t, %x0)
    block0(%i : int, %prev : Tensor):
      %j : int = aten::add(%i, %1)
      %l : int[] = prim::ListConstruct(%j, %m1)
      %y : Tensor = aten::view(%x, %l)
      %p : Tensor = aten::select(%y, %0, %0)
      %q : Tensor = aten::select(%y, %0, %1)
      %w : Tensor = aten::relu_(%q)
      %pw : Tensor = aten::relu(%prev)
      -> (%t, %p)
  return (%o)
)",
         R"(may_alias %prev %q: true
            may_alias %p %q: false
            has_writers %prev: true
            has_writers %p: false
            writes_to_alias_of %w %prev: true
            can_move_before %pw %w: false)");
}

TEST(ContainerTest, ViewsOfElementsAtUnknownPlacesMayMeet) {
  Expect(R"(graph(%l : Tensor[], %i : int, %j : int):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::__getitem__(%l, %i)
  %b : Tensor = aten::__getitem__(%l, %j)
  %a0 : Tensor = aten::select(%a, %0, %0)
  %b1 : Tensor = aten::select(%b, %0, %1)
  %c : Tensor = aten::__getitem__(%l, %0)
  %d : Tensor = aten::__getitem__(%l, %0)
  %c0 : Tensor = aten::select(%c, %0, %0)
  %d1 : Tensor = aten::select(%d, %0, %1)
  %w : Tensor = aten::relu_(%a0)
  return (%w)
)",
         R"(may_alias %a0 %b1: true
            has_writers %b1: true
            may_alias %c0 %d1: true)");
}

TEST(ContainerTest, ColumnsOfPiecesAtUnknownPlacesMayMeetRowsDoNot) {
  Expect(R"(graph(%x0 : Tensor, %i : int, %j : int):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %x : Tensor = aten::mul(%x0, %x0)
  %l : Tensor[] = aten::split(%x, %2, %1)
  %a : Tensor = aten::__getitem__(%l, %i)
  %b : Tensor = aten::__getitem__(%l, %j)
  %a0 : Tensor = aten::select(%a, %1, %0)
  %b1 : Tensor = aten::select(%b, %1, %1)
  %r0 : Tensor = aten::select(%a, %0, %0)
  %r1 : Tensor = aten::select(%b, %0, %1)
  %v : Tensor = aten::flatten(%a, %0, %1)
  %u : Tensor = aten::flatten(%b, %0, %1)
  return (%i)
)",
         R"(may_alias %a %b: true
            may_alias %a0 %b1: true
            may_alias %r0 %r1: false)");
}

TEST(SliceTest, ADimensionCountedFromTheEndMayBeOneCountedFromTheFront) {
  Expect(R"(graph(%a : Tensor):
  %none : NoneType = prim::Constant()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %m1 : int = prim::Constant[value=-1]()
  %x : Tensor = aten::mul(%a, %a)
  %y : Tensor = aten::slice(%x, %m1, %1, %none, %1)
  %z : Tensor = aten::slice(%y, %1, %none, %2, %1)
  %w : Tensor = aten::slice(%x, %1, %2, %none, %1)
  %y1 : Tensor = aten::slice(%x, %1, %1, %none, %1)
  %z1 : Tensor = aten::slice(%y1, %m1, %none, %2, %1)
  %w1 : Tensor = aten::slice(%x, %m1, %2, %none, %1)
  return (%a)
)",
         R"(may_alias %z %w: true
            may_alias %z1 %w1: true
            may_alias %z1 %w: true)");
}

TEST(AttributeTest, ReadTwiceIsTheSame) {
  Expect(R"(graph(%self : __torch__.M, %x : Tensor):
  %1 : int = prim::Constant[value=1]()
  %w : Tensor = prim::GetAttr[name="w"](%self)
  %w2 : Tensor = prim::GetAttr[name="w"](%self)
  %f : Tensor = aten::mul(%x, %x)
  return (%w)
)",
         R"(must_alias %w %w2: true
            may_alias %w %f: false)");
}

TEST(AttributeTest, AnotherOnesAssignmentDoesNotTouchIt) {
  Expect(R"(graph(%self : __torch__.M, %x : Tensor):
  %1 : int = prim::Constant[value=1]()
  %w : Tensor = prim::GetAttr[name="w"](%self)
  %f : Tensor = aten::mul(%x, %x)
   = prim::SetAttr[name="b"](%self, %f)
  %w2 : Tensor = prim::GetAttr[name="w"](%self)
  return (%w)
)",
         R"(must_alias %w %w2: true
            may_alias %w %f: false
            may_alias %w2 %f: false)");
}

TEST(MustTest, WhatAnOperatorGivesBackIsItsArgumentWhicheverThatIs) {
  Expect(R"(graph(%x : Tensor, %y : Tensor, %c : bool, %n : int):
  %t : bool = prim::Constant[value=1]()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::mul(%x, %y)
  %b : Tensor = aten::neg(%x)
  %p : Tensor = prim::If(%c)
    block0():
      -> (%a)
    block1():
      -> (%b)
  %r : Tensor = aten::relu_(%p)
  %s0 : Tensor = aten::select(%p, %0, %1)
  %s1 : Tensor = aten::select(%r, %0, %1)
  %s2 : Tensor = aten::select(%r, %0, %0)
  %q : Tensor = prim::Loop(%n, %t, %a)
    block0(%i : int, %u : Tensor):
      %k : Tensor = aten::add_(%u, %1, %1)
      %v : Tensor = aten::select(%u, %0, %i)
      %v2 : Tensor = aten::select(%k, %0, %i)
      %n1 : Tensor = aten::relu(%k)
      -> (%t, %n1)
  return (%q)
)",
         R"(must_alias %r %p: true
            must_alias %s0 %s1: true
            may_alias %s0 %s2: false
            must_alias %k %u: true
            must_alias %v %v2: true
            must_alias %p %a: false)");
}

TEST(JoinTest, RowsOfAJoinAreDisjointWhicheverItIs) {
  Expect(R"(graph(%x : Tensor, %c : bool):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::mul(%x, %x)
  %b : Tensor = aten::neg(%x)
  %p : Tensor = prim::If(%c)
    block0():
      -> (%a)
    block1():
      -> (%b)
  %s0 : Tensor = aten::select(%p, %0, %0)
  %w : Tensor = aten::relu_(%s0)
  %s1 : Tensor = aten::select(%p, %0, %1)
  %a1 : Tensor = aten::select(%a, %0, %1)
  return (%s1)
)",
         R"(has_writers %s1: false
            may_alias %s0 %s1: false
            has_writers %p: true
            has_writers %a: true
            writes_to_alias_of %w %s1: false
            may_alias %a1 %s1: true
            can_move_before %s1 %w: true
            can_move_after %w %s1: true)");
}

TEST(LoopTest, RowsOfWhatIsCarriedAreDisjointInOneIterationOnly) {
  Expect(R"(graph(%x : Tensor, %n : int):
  %t : bool = prim::Constant[value=1]()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::mul(%x, %x)
  %q : Tensor, %v : Tensor = prim::Loop(%n, %t, %a, %a)
    block0(%i : int, %u : Tensor, %old : Tensor):
      %r0 : Tensor = aten::select(%u, %0, %0)
      %r1 : Tensor = aten::select(%u, %0, %1)
      %w : Tensor = aten::relu_(%r0)
      %z : Tensor = aten::relu(%old)
      %k : Tensor = aten::neg(%u)
      -> (%t, %k, %r1)
  return (%q)
)",
         R"(may_alias %r0 %r1: false
            has_writers %r1: false
            has_writers %r0: true
            may_alias %old %r0: true
            has_writers %old: true
            can_move_before %z %w: false)");
}

TEST(JoinTest, OfATensorOrItsTransposeInALoop) {
  Expect(R"(graph(%x : Tensor, %n : int, %c : bool):
  %t : bool = prim::Constant[value=1]()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::mul(%x, %x)
  %b : Tensor = aten::neg(%x)
  %a0 : Tensor = aten::transpose(%a, %0, %1)
  %z : Tensor = aten::neg(%x)
  %v : Tensor = prim::Loop(%n, %t, %z)
    block0(%i : int, %old : Tensor):
      %cc : bool = aten::eq(%i, %1)
      %u : Tensor = prim::If(%cc)
        block0():
          -> (%a)
        block1():
          -> (%a0)
      %r0 : Tensor = aten::select(%u, %0, %0)
      %r1 : Tensor = aten::select(%u, %0, %1)
      %w : Tensor = aten::relu_(%r0)
      -> (%t, %r1)
  return (%v)
)",
         R"(may_alias %r0 %r1: false
            may_alias %old %r0: true
            has_writers %old: true
            has_writers %r1: false)");
}

TEST(LoopTest, ViewsOfEarlierIterationsInAListMayMeet) {
  Expect(R"(graph(%n : int):
  %none : NoneType = prim::Constant()
  %t : bool = prim::Constant[value=1]()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %m1 : int = prim::Constant[value=-1]()
  %24 : int = prim::Constant[value=24]()
  %sz : int[] = prim::ListConstruct(%24)
  %x : Tensor = aten::zeros(%sz, %none, %none, %none, %none)
  %l : Tensor[] = prim::ListConstruct()
   = prim::Loop(%n, %t)
    block0(%i : int):
      %j : int = aten::add(%i, %1)
      %s : int[] = prim::ListConstruct(%j, %m1)
      %y : Tensor = aten::view(%x, %s)
      %app : Tensor[] = aten::append(%l, %y)
      -> (%t)
  %a : Tensor = aten::__getitem__(%l, %0)
  %b : Tensor = aten::__getitem__(%l, %1)
  %a0 : Tensor = aten::select(%a, %0, %0)
  %b1 : Tensor = aten::select(%b, %0, %1)
  %aa1 : Tensor = aten::select(%a, %0, %1)
  %w : Tensor = aten::relu_(%a0)
  return (%x)
)",
         R"(may_alias %a %b: true
            must_alias %a %b: false
            may_alias %a0 %b1: true
            may_alias %a0 %aa1: false
            has_writers %b1: true
            has_writers %aa1: false)");
}

TEST(MustTest, DetachInPlaceLeavesTheBytesWhereTheyAre) {
  Expect(R"(graph(%x : Tensor):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::mul(%x, %x)
  %d : Tensor = prim::data(%a)
  %e : Tensor = aten::detach(%a)
  %f : Tensor = aten::detach_(%a)
  %w : Tensor = aten::add_(%d, %1, %1)
  return (%e)
)",
         R"(must_alias %d %a: true
            must_alias %e %d: true
            must_alias %f %a: true
            has_writers %e: true
            writes_to_alias_of %f %a: false)");
}

TEST(MustTest, AListThatIsAppendedToIsItselfAndASliceOfATupleHoldsNoMore) {
  Expect(R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::mul(%x, %x)
  %b : Tensor = aten::neg(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
  %m : Tensor[] = prim::ListConstruct()
  %e : Tensor[] = prim::If(%c)
    block0():
      -> (%l)
    block1():
      -> (%m)
  %g : Tensor[] = aten::append(%e, %b)
  %t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)
  %s : (Tensor) = prim::TupleSlice[beg=1, end=2](%t)
  return (%g)
)",
         R"(must_alias %g %e: true
            must_alias %g %l: false
            may_contain_alias %s %b: true
            may_contain_alias %s %a: false)");
}

TEST(MustTest, RowsTakenBeforeAndAfterATransposeInPlaceAreNotTheSame) {
  Expect(R"(graph(%x : Tensor):
  %0 : int = prim::Constant[value=0]()
  %a : Tensor = aten::mul(%x, %x)
  %r : Tensor = aten::select(%a, %0, %0)
  %t : Tensor = aten::t_(%a)
  %s : Tensor = aten::select(%a, %0, %0)
  return (%t)
)",
         R"(must_alias %r %s: false
            must_alias %t %a: true)");
}

TEST(EditTest, WhatComputesABoundIsFollowed) {
  std::unique_ptr<Graph> g = ParseForTest(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %b : Tensor = aten::mul(%x, %x)
  %n : int = aten::size(%b, %0)
  %h : int = aten::add(%n, %1)
  %s : int = aten::add(%n, %1)
  %p : Tensor = aten::slice(%b, %1, %none, %h, %1)
  %q : Tensor = aten::slice(%b, %1, %s, %none, %1)
  return (%q)
)");
  std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
  const ValueId p = g->FindValue("p"), q = g->FindValue("q");
  EXPECT_FALSE(db->MayAlias(p, q));
  g->SetInput(NodeOf(*g, "s"), 1, g->FindValue("0"));
  EXPECT_TRUE(db->MayAlias(p, q));
  EXPECT_TRUE(db->Verify().ok()) << db->Verify();
}

TEST(EditTest, TheSizesThatANewTensorIsToldAreFollowed) {
  std::unique_ptr<Graph> g = ParseForTest(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %4 : int = prim::Constant[value=4]()
  %wide : int[] = prim::ListConstruct(%2, %4)
  %narrow : int[] = prim::ListConstruct(%4, %2)
  %b : Tensor = aten::zeros(%wide, %none, %none, %none, %none)
  %r : Tensor = aten::select(%b, %0, %0)
  %size : int[] = prim::ListConstruct(%2)
  %stride : int[] = prim::ListConstruct(%1)
  %s : Tensor = aten::as_strided(%b, %size, %stride, %2)
  return (%s)
)");
  std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
  const ValueId r = g->FindValue("r"), s = g->FindValue("s");
  EXPECT_TRUE(db->MayAlias(r, s));
  g->SetInput(NodeOf(*g, "b"), 0, g->FindValue("narrow"));
  EXPECT_FALSE(db->MayAlias(r, s));
  EXPECT_TRUE(db->Verify().ok()) << db->Verify();
}

}  // namespace
}  // namespace smelt
