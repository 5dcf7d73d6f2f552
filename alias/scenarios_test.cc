// One scenario per test: which values share memory, and which nodes write it.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "smelt/alias/alias_db.h"
#include "smelt/alias/scenario.h"
#include "smelt/core/ir/text.h"

namespace smelt {
namespace {

// --- topological moves: a graph of nineteen nodes

// After TorchScript's test_topological_move: %a1 to %a3 from the inputs, and so on.
constexpr char kNineteen[] = R"(graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %y, %1)
  %b : Tensor = aten::relu(%x)
  %c : Tensor = aten::add(%a, %b, %1)
  %d : Tensor = aten::relu(%y)
  %e : Tensor = aten::add(%c, %d, %1)
  %f : Tensor = aten::relu(%d)
  %g : Tensor = aten::relu(%e)
  %h : Tensor = aten::add(%f, %y, %1)
  %i : Tensor = aten::relu(%h)
  %j : Tensor = aten::relu(%b)
  %k : Tensor = aten::relu(%x)
  %l : Tensor = aten::add(%a, %k, %1)
  %m : Tensor = aten::add(%l, %g, %1)
  %n : Tensor = aten::relu(%y)
  %o : Tensor = aten::add(%n, %m, %1)
  %p : Tensor = aten::relu(%n)
  %q : Tensor = aten::add(%p, %i, %1)
  %r : Tensor = aten::relu(%j)
  return (%o, %q, %r)
)";

TEST(MoveTest, BeforeAndAfterForwardAndBackward) {
  Expect(kNineteen, R"(can_move_after %b %k: true
                       can_move_before %b %n: true
                       can_move_after %n %a: true
                       can_move_before %k %a: true
                       can_move_after %a %a: false
                       can_move_before %b %c: true
                       can_move_after %a %d: true)");
}

TEST(MoveTest, WhatDependsOnTheNodeIsPushedAlong) {
  Expect(kNineteen, R"(can_move_after %a %k: true
                       can_move_after %a %o: false
                       can_move_before %a %m: false
                       can_move_before %b %r: false
                       can_move_after %j %q: true)");
  std::unique_ptr<Graph> g = ParseForTest(kNineteen);
  std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
  const NodeId a = NodeOf(*g, "a"), k = NodeOf(*g, "k"), b = NodeOf(*g, "b"), d = NodeOf(*g, "d");
  ASSERT_TRUE(db->MoveAfter(a, k).ok());
  EXPECT_EQ(g->node(k).next, a);
  // %c needs %a, %e needs %c, %g needs %e: these moved too, in order; the others stayed.
  EXPECT_EQ(g->node(a).next, NodeOf(*g, "c"));
  EXPECT_EQ(g->node(NodeOf(*g, "c")).next, NodeOf(*g, "e"));
  EXPECT_EQ(g->node(NodeOf(*g, "e")).next, NodeOf(*g, "g"));
  EXPECT_EQ(g->node(b).next, d);
  EXPECT_TRUE(VerifyGraph(*g).ok());
  EXPECT_TRUE(db->Verify().ok()) << db->Verify();
}

TEST(MoveTest, WhatTheNodeNeedsIsPulledAlong) {
  std::unique_ptr<Graph> g = ParseForTest(kNineteen);
  std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
  ASSERT_TRUE(db->MoveBefore(NodeOf(*g, "i"), NodeOf(*g, "b")).ok());
  EXPECT_EQ(g->node(NodeOf(*g, "i")).next, NodeOf(*g, "b"));
  EXPECT_EQ(g->node(NodeOf(*g, "h")).next, NodeOf(*g, "i"));
  EXPECT_EQ(g->node(NodeOf(*g, "a")).next, NodeOf(*g, "d"));
  EXPECT_TRUE(VerifyGraph(*g).ok());
}

TEST(MoveTest, AFailedMoveLeavesTheGraphAndALaterLegalOneSucceeds) {
  std::unique_ptr<Graph> g = ParseForTest(kNineteen);
  std::unique_ptr<AliasDb> db = AliasDb::Build(*g);
  const std::string before = PrintGraph(*g);
  absl::Status s = db->MoveAfter(NodeOf(*g, "a"), NodeOf(*g, "o"));
  EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(PrintGraph(*g), before);
  EXPECT_TRUE(db->MoveAfter(NodeOf(*g, "a"), NodeOf(*g, "j")).ok());
  EXPECT_TRUE(VerifyGraph(*g).ok());
}

TEST(MoveTest, ABlocksUsesAreDependences) {
  Expect(R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %j : Tensor = prim::If(%c)
    block0():
      %d : Tensor = aten::relu(%a)
      -> (%d)
    block1():
      -> (%x)
  %e : Tensor = aten::relu(%x)
  return (%j, %b, %e)
)",
         R"(can_move_after %a %j: false
            can_move_after %b %j: true
            can_move_before %j %b: true
            can_move_before %j %a: false
            can_move_before %d %a: false)");
}

TEST(MoveTest, NotPastAWriteOfAnAlias) {
  Expect(R"(graph(%x : Tensor):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %v : Tensor = aten::select(%a, %0, %0)
  %r : Tensor = aten::relu(%a)
  %w : Tensor = aten::add_(%v, %1, %1)
  %s : Tensor = aten::relu(%a)
  return (%r, %s)
)",
         R"(can_move_after %r %w: false
            can_move_before %s %w: false
            can_move_before %w %r: false
            can_move_before %r %v: true)");
}

TEST(MoveTest, AViewMayPassAWrite) {
  Expect(R"(graph(%x : Tensor):
  %0 : int = prim::Constant[value=0]()
  %w : Tensor = aten::relu_(%x)
  %v : Tensor = aten::select(%x, %0, %0)
  %n : int = aten::size(%x, %0)
  return (%v, %n)
)",
         R"(can_move_before %v %w: true
            can_move_before %n %w: true)");
}

TEST(MoveTest, PrintsNeverCross) {
  Expect(R"(graph(%x : Tensor):
  %a : Tensor = aten::relu(%x)
   = prim::Print(%x)
   = prim::Print(%a)
  %b : Tensor = aten::relu(%x)
  return (%b)
)",
         R"(can_move_after @1 @2: false
            can_move_before @2 @1: false
            can_move_before %b @1: true
            can_move_after %a @1: true)");
}

TEST(MoveTest, RandomNumbersKeepTheirOrder) {
  Expect(R"(graph(%x : Tensor):
  %n : NoneType = prim::Constant()
  %a : Tensor = aten::bernoulli(%x, %n)
  %b : Tensor = aten::bernoulli(%x, %n)
  return (%a, %b)
)",
         "can_move_after %a %b: false");
}

TEST(MoveTest, AWriteInsideABranchCounts) {
  Expect(R"(graph(%x : Tensor, %y : Tensor, %c : bool):
  %a : Tensor = aten::relu(%x)
  %r : Tensor = aten::relu(%a)
  %j : Tensor = prim::If(%c)
    block0():
      %w : Tensor = aten::relu_(%a)
      -> (%w)
    block1():
      -> (%y)
  %s : Tensor = aten::sum(%a)
  return (%r, %j, %s)
)",
         R"(can_move_after %r %j: false
            can_move_before %s %j: false
            has_writers %a: true
            writes_to_alias_of %j %a: true
            writes_to_alias_of %j %r: false)");
}

// --- writes

TEST(WriteTest, ReluInPlaceWritesMulDoesNot) {
  Expect(R"(graph(%x : Tensor, %n : NoneType):
  %a : Tensor = aten::mul(%x, %x)
  %b : Tensor = aten::relu_(%a)
  %c : Tensor = aten::mul(%a, %x)
  return (%c)
)",
         R"(has_writers %a: true
            has_writers %b: true
            has_writers %c: false
            has_writers %x: false
            has_writers %n: false
            writes_to_alias_of %a %x: false
            must_alias %a %b: true)");
}

TEST(WriteTest, ToChangeAliasingNeedsATemporary) {
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%y)
  %c : Tensor = aten::relu(%b)
  %w : Tensor = aten::relu_(%y)
  return (%a, %c)
)",
         R"(safe_to_change_aliasing %x %a: false
            safe_to_change_aliasing %a %b: true
            safe_to_change_aliasing %b %y: false
            safe_to_change_aliasing %a %c: false)");
}

TEST(WriteTest, RunningStatisticsAreWrittenIffTraining) {
  const auto graph = [](const std::string& training) {
    return R"(graph(%x : Tensor, %m : Tensor, %v : Tensor, %t : bool):
  %none : NoneType = prim::Constant()
  %no : bool = prim::Constant[value=0]()
  %yes : bool = prim::Constant[value=1]()
  %f : float = prim::Constant[value=0.1]()
  %a : Tensor = aten::batch_norm(%x, %none, %none, %m, %v, )" +
           training + R"(, %f, %f, %no)
  %b : Tensor = aten::instance_norm(%x, %none, %none, %m, %v, )" +
           training + R"(, %f, %f, %no)
  %d : Tensor = aten::batch_norm(%x, %none, %none, %none, %none, )" +
           training + R"(, %f, %f, %no)
  return (%a, %b, %d)
)";
  };
  for (const char* training : {"%yes", "%t"}) {
    Expect(graph(training), R"(writes_to_alias_of %a %m: true
                               writes_to_alias_of %a %v: true
                               writes_to_alias_of %b %m: true
                               writes_to_alias_of %d %m: false
                               has_writers %m: true
                               has_writers %d: false)");
  }
  Expect(graph("%no"), R"(writes_to_alias_of %a %m: false
                          writes_to_alias_of %b %v: false
                          has_writers %m: false)");
}

// --- wildcards and inputs

TEST(InputTest, InputsOverlapEachOtherAndOutputsButNothingFresh) {
  Expect(R"(graph(%x : Tensor, %y : Tensor, %l : Tensor[], %i : int[]):
  %0 : int = prim::Constant[value=0]()
  %a : Tensor = aten::relu(%x)
  %e : Tensor = aten::__getitem__(%l, %0)
  %v : Tensor = aten::t(%y)
  return (%v, %a)
)",
         R"(may_alias %x %y: true
            must_alias %x %y: false
            may_alias %x %e: true
            may_alias %x %v: true
            may_alias %x %a: false
            may_alias %e %a: false
            may_alias %l %i: false
            may_contain_alias %l %x: true
            may_contain_alias %i %x: false)");
}

TEST(InputTest, ListsOfOptionalTensorsAreNotListsOfTensors) {
  Expect(R"(graph(%l : Tensor[], %o : Tensor?[], %m : Tensor[]):
  return (%l)
)",
         R"(may_alias %l %m: true
            may_contain_alias %l %o: true)");
}

TEST(InputTest, WhatIsTakenFromACallersListMayBeAnyInputButNoLocal) {
  Expect(R"(graph(%l : Tensor[], %x : Tensor):
  %0 : int = prim::Constant[value=0]()
  %f : Tensor = aten::relu(%x)
  %e : Tensor = aten::__getitem__(%l, %0)
  %k : Tensor[] = aten::append(%l, %f)
  %g : Tensor = aten::__getitem__(%k, %0)
  %w : Tensor = aten::relu_(%g)
  return ()
)",
         R"(may_alias %g %f: true
            may_alias %g %x: true
            has_writers %f: true
            has_writers %x: true)");
}

// --- disjoint views, which the reference does not tell apart

TEST(DisjointTest, AWriteToOneChunkLeavesTheOther) {
  Expect(R"(graph(%x : Float(4, 8, strides=[8, 1])):
  %0 : int = prim::Constant[value=0]()
  %2 : int = prim::Constant[value=2]()
  %l : Tensor[] = aten::chunk(%x, %2, %0)
  %a : Tensor, %b : Tensor = prim::ListUnpack(%l)
  %w : Tensor = aten::relu_(%a)
  return (%b)
)",
         R"(may_alias %a %b: false
            has_writers %b: false
            has_writers %x: true
            writes_to_alias_of %w %b: false
            may_alias %x %b: true)");
}

TEST(DisjointTest, SplitsPiecesAliasTheBase) {
  Expect(R"(graph(%x : Tensor, %n : int):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %l : Tensor[] = aten::split(%x, %1, %0)
  %a : Tensor = aten::__getitem__(%l, %0)
  %b : Tensor = aten::__getitem__(%l, %1)
  %c : Tensor = aten::__getitem__(%l, %n)
  return (%l)
)",
         R"(may_alias %x %a: true
            may_contain_alias %x %l: true
            may_alias %a %c: true)");
}

// --- loops

TEST(DisjointTest, RowsTakenBeforeTheBaseIsTransposedStayDisjoint) {
  Expect(R"(graph(%x : Tensor, %i : int):
  %n : NoneType = prim::Constant()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::clone(%x, %n)
  %r0 : Tensor = aten::select(%a, %0, %0)
  %r1 : Tensor = aten::select(%a, %0, %1)
  %w : Tensor = aten::zero_(%r0)
  %t : Tensor = aten::t_(%a)
  %c1 : Tensor = aten::select(%a, %0, %1)
  return (%t)
)",
         R"(may_alias %r0 %r1: false
            has_writers %r1: false
            may_alias %r0 %c1: true
            may_alias %r0 %a: true)");
}

// In the next iteration the base has been transposed.
TEST(DisjointTest, RowsTakenInALoopThatTransposesTheBaseMayMeet) {
  Expect(R"(graph(%x : Tensor, %k : int):
  %n : NoneType = prim::Constant()
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %yes : bool = prim::Constant[value=1]()
  %a : Tensor = aten::clone(%x, %n)
  %first : Tensor = aten::select(%a, %0, %0)
  %last : Tensor = prim::Loop(%k, %yes, %first)
    block0(%i : int, %p : Tensor):
      %r1 : Tensor = aten::select(%a, %0, %1)
      %t : Tensor = aten::t_(%a)
      -> (%yes, %r1)
  return (%last)
)",
         R"(may_alias %r1 %first: true
            may_alias %last %first: true)");
}

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

TEST(LoopTest, RotatedValuesAreEachOther) {
  // PyTorch #75794: TorchScript has no back edge and merges the zeros.
  Expect(R"(graph(%x : Tensor, %n : int):
  %1 : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %c : Tensor = aten::relu(%x)
  %p : Tensor, %q : Tensor, %r : Tensor = prim::Loop(%n, %true, %a, %b, %c)
    block0(%i : int, %u : Tensor, %v : Tensor, %w : Tensor):
      %s : Tensor = aten::add_(%w, %1, %1)
      -> (%true, %w, %u, %v)
  return (%p, %q, %r)
)",
         R"(has_writers %a: true
            has_writers %b: true
            has_writers %c: true
            may_alias %b %u: true
            safe_to_change_aliasing %a %b: false)");
}

TEST(LoopTest, WhatComesInComesOutOfALoopThatDoesNotRun) {
  // TorchScript returns 1 for n = 0: a = ones; p = a; for i in range(n): p = b; p.add_(1); return a.
  Expect(R"(graph(%b : Tensor, %n : int):
  %1 : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%b)
  %p : Tensor = prim::Loop(%n, %true, %a)
    block0(%i : int, %q : Tensor):
      -> (%true, %b)
  %w : Tensor = aten::add_(%p, %1, %1)
  return (%a)
)",
         R"(may_alias %a %p: true
            may_alias %b %p: true
            has_writers %a: true
            has_writers %b: true)");
}

TEST(LoopTest, AWhileLoopThatMakesNoTripReturnsCopies) {
  Expect(R"(graph(%x : Tensor, %more : Tensor):
  %r : Tensor = smelt::while_loop(%x)
    block0(%p : Tensor):
      -> (%more)
    block1(%q : Tensor):
      -> (%q)
  %v : Tensor = aten::detach(%x)
  %w : Tensor = aten::detach(%r)
  return (%v, %w)
)",
         R"(may_alias %r %x: true
            must_alias %v %w: false
            may_alias %r %more: true)");
  Expect(R"(graph(%x : Tensor, %more : Tensor):
  %a : Tensor = aten::relu(%x)
  %r : Tensor = smelt::while_loop(%a)
    block0(%p : Tensor):
      -> (%more)
    block1(%q : Tensor):
      %s : Tensor = aten::relu(%q)
      -> (%s)
  return (%r)
)",
         R"(may_alias %r %a: false
            may_alias %r %more: false)");
}

TEST(LoopTest, NoWriteMovesAcrossAWhileLoopThatMayCopyIt) {
  // Nothing in the loop reads %a, and it does not copy %b, which it does not carry.
  Expect(R"(graph(%x : Tensor, %y : Tensor, %more : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%y)
  %r : Tensor = smelt::while_loop(%a, %b)
    block0(%p : Tensor, %m : Tensor):
      -> (%more)
    block1(%q : Tensor, %n : Tensor):
      %s : Tensor = aten::relu(%more)
      -> (%s)
  %u : Tensor = aten::relu_(%a)
  %w : Tensor = aten::relu_(%b)
  return (%r, %u, %w)
)",
         R"(can_move_before %u %r: false
            can_move_before %w %r: true)");
}

TEST(LoopTest, ListsThatAWhileLoopCarriesAreNotCopied) {
  Expect(R"(graph(%x : Tensor, %more : Tensor):
  %l : Tensor[] = prim::ListConstruct(%x)
  %r : Tensor[] = smelt::while_loop(%l)
    block0(%p : Tensor[]):
      -> (%more)
    block1(%q : Tensor[]):
      %s : Tensor[] = prim::ListConstruct(%more)
      -> (%s)
  return (%r)
)",
         R"(may_alias %r %l: true
            must_alias %r %l: false
            may_contain_alias %r %more: true)");
}

TEST(LoopTest, TheConditionOfAWhileLoopRunsAfterTheLastTrip) {
  // It has appended what the last trip made, which is what the loop returns.
  Expect(R"(graph(%x : Tensor):
  %a : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct()
  %r : Tensor = smelt::while_loop(%a)
    block0(%p : Tensor):
      %e : Tensor[] = aten::append(%l, %p)
      -> (%p)
    block1(%q : Tensor):
      %s : Tensor = aten::relu(%q)
      -> (%s)
  return (%r, %l)
)",
         R"(may_contain_alias %l %r: true)");
}

TEST(BranchTest, NoWriteMovesAcrossTheConditionThatItChanges) {
  Expect(R"(graph(%x : Tensor, %y : Tensor, %z : Tensor):
  %c : Tensor = aten::relu(%x)
  %d : Tensor = aten::relu(%y)
  %e : Tensor = aten::relu(%z)
  %r : Tensor = prim::If(%c)
    block0():
      -> (%x)
    block1():
      -> (%y)
  %wc : Tensor = aten::relu_(%c)
  %s : Tensor = smelt::cond(%d, %x)
    block0(%p : Tensor):
      -> (%p)
    block1(%q : Tensor):
      -> (%y)
  %wd : Tensor = aten::relu_(%d)
  %t : Tensor = smelt::while_loop(%x)
    block0(%u : Tensor):
      -> (%e)
    block1(%v : Tensor):
      -> (%v)
  %we : Tensor = aten::relu_(%e)
  return (%r, %s, %t, %wc, %wd, %we)
)",
         R"(can_move_before %wc %r: false
            can_move_before %wd %s: false
            can_move_before %we %t: false
            can_move_after %t %we: false)");
}

// --- containers

TEST(ContainerTest, MembersOfATupleADictionaryAndAList) {
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %k : str = prim::Constant[value="k"]()
  %0 : int = prim::Constant[value=0]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %t : (Tensor, Tensor) = prim::TupleConstruct(%a, %b)
  %d : Dict(str, Tensor) = prim::DictConstruct(%k, %a)
  %l : Tensor[] = prim::ListConstruct(%a)
  %u : Tensor, %v : Tensor = prim::TupleUnpack(%t)
  %e : Tensor = aten::__getitem__(%d, %k)
  %f : Tensor = aten::__getitem__(%l, %0)
  return (%u)
)",
         R"(must_alias %a %u: true
            may_alias %a %v: false
            may_alias %a %e: true
            must_alias %a %f: true
            may_contain_alias %t %l: true
            may_contain_alias %d %b: false
            may_alias %l %a: false
            may_contain_alias %l %0: false)");
}

TEST(ContainerTest, TwoListsShareAnElement) {
  Expect(R"(graph(%x : Tensor):
  %0 : int = prim::Constant[value=0]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
  %m : Tensor[] = prim::ListConstruct(%a, %b)
  %e : Tensor = aten::__getitem__(%l, %0)
  %w : Tensor = aten::relu_(%e)
  return (%m)
)",
         R"(may_alias %l %m: false
            may_contain_alias %l %m: true
            has_writers %a: true
            has_writers %b: false
            has_writers %m: false
            writes_to_alias_of %w %a: true)");
}

TEST(ContainerTest, AUnionOfBranchesAliasesItsArmsWhichDoNotAliasEachOther) {
  Expect(R"(graph(%x : Tensor, %c : bool):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %s : (Tensor) = prim::TupleConstruct(%a)
  %t : (Tensor) = prim::TupleConstruct(%b)
  %j : (Tensor) = prim::If(%c)
    block0():
      -> (%s)
    block1():
      -> (%t)
  %e : Tensor = prim::TupleUnpack(%j)
  return (%e)
)",
         R"(may_alias %a %b: false
            may_alias %e %a: true
            may_alias %e %b: true
            must_alias %e %a: false
            may_contain_alias %j %a: true
            may_contain_alias %s %t: false)");
}

TEST(ContainerTest, AWriteOfAnElementBlocksAReadOfTheListAlsoNested) {
  Expect(R"(graph(%x : Tensor):
  %0 : int = prim::Constant[value=0]()
  %a : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
  %t : (Tensor[]) = prim::TupleConstruct(%l)
  %u : Tensor[] = prim::TupleUnpack(%t)
  %c : Tensor = aten::cat(%u, %0)
  %w : Tensor = aten::relu_(%a)
  %n : int = aten::len(%l)
  return (%c, %n)
)",
         R"(can_move_after %c %w: false
            can_move_before %n %w: true)");
}

TEST(ContainerTest, AnOperatorThatWritesContents) {
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%a, %y)
   = aten::_foreach_add_(%l, %1)
  return (%b)
)",
         R"(has_writers %a: true
            has_writers %y: true
            has_writers %b: false
            has_writers %l: false
            writes_to_alias_of @4 %a: true)");
}

TEST(ContainerTest, AListForCatStaysExact) {
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %0 : int = prim::Constant[value=0]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%y)
  %l : Tensor[] = prim::ListConstruct(%a)
  %c : Tensor = aten::cat(%l, %0)
  %w : Tensor = aten::relu_(%b)
  return (%c)
)",
         R"(may_alias %c %a: false
            can_move_after %c %w: true
            has_writers %a: false)");
}

TEST(ReachTest, AnEmptyTensorThatIsReturnedIsReachedByTheCaller) {
  // It shares no byte, but giving it another size makes the memory reachable.
  Expect(R"(graph(%x : Tensor, %n : int[]):
  %a : Float(0, 4, strides=[4, 1]) = aten::neg(%x)
  %b : Float(0, 4, strides=[4, 1]) = aten::alias(%a)
  %c : Float(0, 4, strides=[4, 1]) = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%b, %x)
  return (%l)
)",
         R"(safe_to_change_aliasing %b %l: false
            safe_to_change_aliasing %a %b: false
            safe_to_change_aliasing %b %x: false
            safe_to_change_aliasing %c %l: true
            may_alias %a %b: false
            may_alias %a %a: false
            may_contain_alias %b %l: false
            must_alias %a %a: true)");
}

TEST(ReachTest, AnEmptyTensorIsWrittenByNobody) {
  Expect(R"(graph(%x : Float(0, 4, strides=[4, 1]), %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %w : Float(0, 4, strides=[4, 1]) = aten::add_(%x, %x, %1)
  return (%w)
)",
         R"(has_writers %x: false
            has_writers %w: false
            may_alias %x %w: false
            may_alias %x %y: false
            writes_to_alias_of %w %y: false
            safe_to_change_aliasing %x %w: false)");
}

TEST(ViewTest, TheTransposeOfAScalarIsTheScalarItself) {
  // unsqueeze_ of one handle changes the other too if they are the same handle.
  Expect(R"(graph(%x : Float(requires_grad=0, device=cpu), %y : Tensor):
  %0 : int = prim::Constant[value=0]()
  %a : Float(requires_grad=0, device=cpu) = aten::mT(%x)
  %b : Float(requires_grad=0, device=cpu) = aten::adjoint(%x)
  %p : Tensor = aten::mT(%y)
  %q : Tensor = aten::mT(%y)
  %s : Tensor = aten::select(%p, %0, %0)
  return (%a, %b, %p, %q)
)",
         R"(must_alias %a %x: true
            must_alias %b %x: true
            must_alias %p %q: true
            must_alias %p %y: false
            may_alias %s %y: true)");
  Expect(R"(graph(%y : Tensor):
  %0 : int = prim::Constant[value=0]()
  %p : Tensor = aten::mT(%y)
  %u : Tensor = aten::unsqueeze_(%p, %0)
  %n : int = aten::dim(%y)
  return (%u, %n)
)",
         R"(can_move_before %n %u: false)");
}

TEST(JoinTest, WhatIsNotInitializedIsNothing) {
  // The form in which the compiler prints early returns: nothing uses %u.
  Expect(R"(graph(%x : Tensor, %y : Tensor, %c : bool):
  %u : Tensor = prim::Uninitialized()
  %n : NoneType = prim::Constant()
  %a : Tensor = prim::If(%c)
    block0():
      -> (%x)
    block1():
      -> (%u)
  %b : Tensor? = prim::If(%c)
    block0():
      -> (%x)
    block1():
      -> (%n)
  return (%a, %b)
)",
         R"(may_alias %u %a: false
            may_contain_alias %u %x: false
            may_alias %a %x: true
            must_alias %a %x: false
            must_alias %b %x: false
            has_writers %u: false)");
}

TEST(ContainerTest, WhatMayBeMissingIsNotTheElementForCertain) {
  Expect(R"(graph(%x : Tensor, %y : Tensor, %i : int, %o : Tensor?):
  %0 : int = prim::Constant[value=0]()
  %k : str = prim::Constant[value="k"]()
  %n : NoneType = prim::Constant()
  %d : Dict(str, Tensor) = prim::DictConstruct(%k, %x)
  %g : Tensor? = aten::get(%d, %k)
  %l : Tensor?[] = prim::ListConstruct(%x, %n)
  %e : Tensor? = aten::__getitem__(%l, %i)
  %f : Tensor? = aten::__getitem__(%l, %0)
  %u : Tensor = prim::unchecked_cast(%o)
  %w : Tensor = prim::unchecked_cast(%g)
  return (%g, %e, %f, %u, %w)
)",
         R"(may_alias %g %x: true
            must_alias %g %x: false
            must_alias %e %x: false
            must_alias %u %o: true
            must_alias %w %g: true)");
}

TEST(EffectsTest, DropoutWhileTrainingGivesNewMemory) {
  Expect(R"(graph(%x : Tensor, %t : bool):
  %p : float = prim::Constant[value=0.5]()
  %z : float = prim::Constant[value=0.]()
  %1 : bool = prim::Constant[value=1]()
  %0 : bool = prim::Constant[value=0]()
  %a : Tensor = aten::dropout(%x, %p, %1)
  %b : Tensor = aten::dropout(%x, %p, %0)
  %c : Tensor = aten::dropout(%x, %p, %t)
  %d : Tensor = aten::dropout(%x, %z, %1)
  return (%a, %b, %c, %d)
)",
         R"(may_alias %a %x: false
            must_alias %b %x: true
            may_alias %c %x: true
            must_alias %c %x: false
            must_alias %d %x: true)");
}

TEST(EffectsTest, WithAnObjectOfTheProgramDoesWhatItReaches) {
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %m : __torch__.mine = prim::CreateObject()
  %w : Tensor = aten::neg(%y)
  %v : Tensor = aten::neg(%y)
   = prim::SetAttr[name="t"](%m, %w)
  %f : NoneType = prim::Enter(%m)
  return (%w)
)",
         R"(has_writers %w: true
            has_writers %v: false
            writes_to_alias_of %f %w: true)");
}

TEST(EffectsTest, WithNoGradTouchesNoMemory) {
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %o : __torch__.torch.autograd.grad_mode.no_grad = prim::CreateObject()
   = prim::SetAttr[name="prev"](%o, %1)
  %e : NoneType = prim::Enter(%o)
  %a : Tensor = aten::add(%x, %y, %1)
  %z : Tensor = prim::Exit(%o)
  return (%a)
)",
         R"(has_writers %x: false
            has_writers %a: false
            writes_to_alias_of %e %x: false
            can_move_before %a %e: true
            can_move_before %z %e: false)");
}

TEST(ContainerTest, AListThatIsAddedToIsTheSameList) {
  // TorchScript's schema does not state it: add_.t(t[](a!) self, t[] b) -> t[].
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %0 : int = prim::Constant[value=0]()
  %l : Tensor[] = prim::ListConstruct(%x)
  %m : Tensor[] = prim::ListConstruct(%y)
  %n : Tensor[] = aten::add_(%l, %m)
  %s : Tensor[] = aten::add(%l, %m)
  return (%n)
)",
         R"(may_alias %l %n: true
            must_alias %l %n: true
            has_writers %n: true
            has_writers %l: true
            may_contain_alias %n %y: true
            may_alias %s %l: false
            may_contain_alias %s %x: true)");
}

TEST(ContainerTest, ADictionaryThatIsUpdatedHoldsWhatTheOtherHolds) {
  // TorchScript's schema declares the other one as written: update.str(Dict(str, t)(a!) self, Dict(str, t)(a!) to_add).
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %a : str = prim::Constant[value="a"]()
  %l : Tensor[] = prim::ListConstruct(%x)
  %d : Dict(str, Tensor[]) = prim::DictConstruct()
  %f : Dict(str, Tensor[]) = prim::DictConstruct(%a, %l)
   = aten::update(%d, %f)
  %m : Tensor[] = aten::__getitem__(%d, %a)
  %z : Tensor = aten::relu(%y)
  return (%m)
)",
         R"(may_alias %m %l: true
            may_contain_alias %d %x: true
            may_contain_alias %d %z: false
            has_writers %d: true
            has_writers %f: false)");
}

// --- calls

TEST(CallTest, AForkedGraphsTupleHoldsItsArgumentsAndViewsOfThem) {
  Expect(R"(graph(%x : Tensor, %y : Tensor, %z : Tensor):
  %2 : int = prim::Constant[value=2]()
  %f : Future[(Tensor, Tensor)] = prim::fork_0(%x, %y)
  %t : (Tensor, Tensor) = aten::wait(%f)
  %a : Tensor, %b : Tensor = prim::TupleUnpack(%t)
  %w : Tensor = aten::mul_(%a, %2)
  return (%b)
with prim::fork_0 = graph(%x : Tensor, %y : Tensor):
  %0 : int = prim::Constant[value=0]()
  %v : Tensor = aten::select(%y, %0, %0)
  %t : (Tensor, Tensor) = prim::TupleConstruct(%x, %v)
  return (%t)
)",
         R"(may_alias %x %a: true
            may_alias %y %b: true
            may_contain_alias %f %x: true
            has_writers %a: true
            writes_to_alias_of %w %x: true)");
}

// Each list contains the elements of the other: the result of one query must serve the next, or queries never end.
TEST(ContainerTest, ListsThatTakeInEachOtherAreSolvedTogether) {
  constexpr int kLists = 48;
  std::string text =
      "graph(%x : Tensor, %n : int):\n  %t : bool = prim::Constant[value=1]()\n"
      "  %z : int = prim::Constant[value=0]()\n";
  for (int i = 0; i < kLists; ++i) {
    absl::StrAppend(&text, "  %a", i, " : Tensor = aten::neg(%x)\n  %l", i, " : Tensor[] = prim::ListConstruct(%a", i,
                    ")\n");
  }
  absl::StrAppend(&text, "   = prim::Loop(%n, %t)\n    block0(%i : int):\n");
  for (int i = 0; i < kLists; ++i) {
    for (int j = 0; j < kLists; ++j) {
      if (i != j) absl::StrAppend(&text, "       = aten::extend(%l", i, ", %l", j, ")\n");
    }
  }
  absl::StrAppend(&text, "      -> (%t)\n  %r : Tensor = aten::__getitem__(%l0, %z)\n  return (%r)\n");
  Expect(text, R"(may_contain_alias %l0 %a15: true
                  may_alias %r %a0: true
                  may_alias %r %x: false)");
}

TEST(ContainerTest, AListThatExtendsItselfInALoopHoldsWhatItHeld) {
  // l = [x]; for _ in range(n): l.extend(l); m = [l[0]]; m += m
  Expect(R"(graph(%x : Tensor, %n : int):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%y)
   = prim::Loop(%n, %true)
    block0(%i : int):
       = aten::extend(%l, %l)
      %fresh : Tensor = aten::relu(%x)
      %c : Tensor[] = aten::append(%l, %fresh)
      -> (%true)
  %e : Tensor = aten::__getitem__(%l, %n)
  %w : Tensor = aten::add_(%e, %one, %one)
  return (%w)
)",
         R"(may_alias %e %y: true
            has_writers %y: true
            may_contain_alias %l %x: false
            has_writers %x: false)");
}

TEST(ContainerTest, AListThatIsCopiedInEachIterationHoldsWhatTheFirstOneHeld) {
  Expect(R"(graph(%x : Tensor, %n : int):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%y)
  %m : Tensor[] = prim::Loop(%n, %true, %l)
    block0(%i : int, %k : Tensor[]):
      %c : Tensor[] = aten::slice(%k, %zero, %n, %one)
      -> (%true, %c)
  %e : Tensor = aten::__getitem__(%m, %zero)
  return (%e)
)",
         R"(may_alias %e %y: true
            may_alias %l %m: true
            may_contain_alias %m %x: false)");
}

TEST(ContainerTest, ASummaryThatTheCallerReachesKeepsTheWritesOfWhatJoinsItLater) {
  // 40 inputs in one list: each may be the same location. %z is added after the list was written.
  std::string inputs, list;
  for (int k = 0; k < 40; ++k) {
    absl::StrAppend(&inputs, "%x", k, " : Tensor, ");
    absl::StrAppend(&list, k > 0 ? ", " : "", "%x", k);
  }
  Expect(absl::StrCat("graph(", inputs, R"(%i : int):
  %one : int = prim::Constant[value=1]()
  %l : Tensor[] = prim::ListConstruct()",
                      list, R"()
  %e : Tensor = aten::__getitem__(%l, %i)
  %z : Tensor = aten::relu(%x0)
  %w : Tensor = aten::add_(%z, %one, %one)
  %m : Tensor[] = prim::ListConstruct(%e, %z)
  %f : Tensor = aten::__getitem__(%m, %i)
  return (%f)
)"),
         R"(has_writers %z: true
            may_alias %f %z: true
            may_alias %f %x7: true)");
}

TEST(ContainerTest, ADictionaryOfADictionaryOrOfPairsHoldsTheirValues) {
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %k : str = prim::Constant[value="k"]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%y)
  %d : Dict(str, Tensor) = prim::DictConstruct(%k, %a)
  %e : Dict(str, Tensor) = aten::dict(%d)
  %p : (str, Tensor) = prim::TupleConstruct(%k, %b)
  %l : (str, Tensor)[] = prim::ListConstruct(%p)
  %f : Dict(str, Tensor) = aten::dict(%l)
  %c : Tensor = aten::__getitem__(%e, %k)
  %g : Tensor = aten::__getitem__(%f, %k)
  %w : Tensor = aten::add_(%g, %one, %one)
  return (%c)
)",
         R"(may_contain_alias %a %e: true
            may_contain_alias %b %e: false
            may_alias %c %a: true
            may_alias %g %b: true
            has_writers %b: true
            has_writers %a: false
            may_alias %d %e: false)");
}

TEST(CallTest, AFunctionIsNoMemory) {
  Expect(R"(graph(%x : Tensor, %l : Tensor[]):
  %f : Function = prim::Constant[name="helper"]()
  %y : Tensor = prim::CallFunction(%f, %x, %l)
  return (%y)
)",
         R"(may_contain_alias %f %x: false
            may_contain_alias %f %l: false
            has_writers %f: false
            may_alias %y %x: true
            has_writers %x: true)");
}

TEST(CallTest, AForkedGraphsListOfNewTensorsAndViewsOfThemOverlaps) {
  // def f(x): y = x + 1; return y, [y, x[0]]
  Expect(R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %future : Future[(Tensor, Tensor[])] = prim::fork_0(%x)
  %both : (Tensor, Tensor[]) = aten::wait(%future)
  %a : Tensor, %l : Tensor[] = prim::TupleUnpack(%both)
  %b : Tensor, %c : Tensor = prim::ListUnpack(%l)
  %w : Tensor = aten::add_(%b, %one, %one)
  return (%c)
with prim::fork_0 = graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::add(%x, %one, %one)
  %v : Tensor = aten::select(%x, %zero, %zero)
  %l : Tensor[] = prim::ListConstruct(%y, %v)
  %t : (Tensor, Tensor[]) = prim::TupleConstruct(%y, %l)
  return (%t)
)",
         R"(may_alias %a %b: true
            has_writers %a: true
            may_alias %c %x: true
            writes_to_alias_of %future %x: false
            can_move_before %one %both: true)");
}

TEST(CallTest, AGraphThatReshapesAListsElementsKeepsItsPlaceAmongTheirReaders) {
  // The size of %x is read after it has been unsqueezed; no byte of it is written.
  Expect(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %l : Tensor[] = prim::ListConstruct(%x)
  %r : Tensor = smelt::call_0(%l)
  %v : Tensor = aten::select(%x, %zero, %zero)
  return (%v, %r)
with smelt::call_0 = graph(%l : Tensor[]):
  %zero : int = prim::Constant[value=0]()
  %e : Tensor = aten::__getitem__(%l, %zero)
  %t : Tensor = aten::unsqueeze_(%e, %zero)
  return (%t)
)",
         R"(can_move_before %v %r: false
            can_move_after %r %v: false
            has_writers %x: false
            may_alias %r %x: true)");
}
TEST(CallTest, AForkedGraphMayReturnATensorAndItsTranspose) {
  Expect(R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %future : Future[(Tensor, Tensor)] = prim::fork_0(%x)
  %both : (Tensor, Tensor) = aten::wait(%future)
  %a : Tensor, %b : Tensor = prim::TupleUnpack(%both)
  %w : Tensor = aten::add_(%b, %one, %one)
  return (%a)
with prim::fork_0 = graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::add(%x, %one, %one)
  %v : Tensor = aten::t(%y)
  %t : (Tensor, Tensor) = prim::TupleConstruct(%y, %v)
  return (%t)
)",
         R"(may_alias %a %b: true
            has_writers %a: true
            may_alias %a %x: false)");
}

TEST(MoveTest, TheRealPartOfARealTensorIsTheTensorThatSetMoves) {
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %r : Tensor = aten::real(%a)
  %w : Tensor = aten::add_(%r, %one, %one)
  %s : Tensor = aten::set_(%a, %y)
  return (%s)
)",
         R"(can_move_before %s %w: false
            can_move_after %w %s: false)");
}

TEST(CallTest, AnObjectGivenToTwoCallsHoldsWhatTheyWereGivenAndMadeNotTheCallersLists) {
  // k = K([x]); k.one(x), and o = K(l); o.one(x): methods that are not inlined reach everything that their arguments
  // reach.
  Expect(R"(graph(%x : Tensor, %l : Tensor[]):
  %m : Tensor[] = prim::ListConstruct(%x)
  %k : __torch__.K = prim::CreateObject()
  %a : NoneType = prim::CallMethod[name="__init__"](%k, %m)
  %b : Tensor = prim::CallMethod[name="one"](%k, %x)
  %kl : Tensor[] = prim::GetAttr[name="l"](%k)
  %o : __torch__.K = prim::CreateObject()
  %c : NoneType = prim::CallMethod[name="__init__"](%o, %l)
  %d : Tensor = prim::CallMethod[name="one"](%o, %x)
  %ol : Tensor[] = prim::GetAttr[name="l"](%o)
  return (%b)
)",
         R"(may_alias %kl %l: false
            may_alias %kl %m: true
            may_contain_alias %k %m: true
            may_alias %b %x: true
            writes_to_alias_of %a %l: false
            writes_to_alias_of %b %l: false
            writes_to_alias_of %b %m: true
            may_alias %ol %l: true
            writes_to_alias_of %d %l: true
            writes_to_alias_of %d %m: false
            may_alias %k %o: false
            must_alias %kl %m: false)");
}

TEST(CallTest, WhatTwoCallsMakeIsApartUnlessTheySeeEachOther) {
  Expect(R"(graph(%x : Tensor):
  %p : Tensor = aten::relu(%x)
  %q : Tensor = aten::relu(%x)
  %k : __torch__.K = prim::CreateObject()
  %o : __torch__.K = prim::CreateObject()
  %a : Tensor[] = prim::CallMethod[name="make"](%k, %p)
  %b : Tensor[] = prim::CallMethod[name="make"](%o, %q)
  %c : Tensor[] = prim::CallMethod[name="more"](%k, %b)
  return (%c)
)",
         R"(may_contain_alias %a %b: true
            may_alias %a %b: false
            may_contain_alias %a %x: false
            may_contain_alias %b %x: false
            may_alias %a %c: true
            may_alias %b %c: true
            may_contain_alias %p %a: true
            must_alias %a %a: true
            has_writers %x: false)");
}

TEST(CallTest, AListMadeInACallHasElementsThatMayBeOneTensor) {
  Expect(R"(graph(%x : Tensor):
  %f : Function = prim::Constant[name="f"]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %p : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::CallFunction(%f, %p)
  %a : Tensor = aten::__getitem__(%l, %zero)
  %b : Tensor = aten::__getitem__(%l, %one)
  %c : Tensor = aten::select(%a, %zero, %zero)
  %d : Tensor = aten::select(%b, %zero, %one)
  %w : Tensor = aten::add_(%c, %one, %one)
  return (%d)
)",
         R"(may_alias %a %b: true
            must_alias %a %b: false
            may_alias %c %d: true
            may_alias %a %p: true
            has_writers %d: true
            may_alias %a %x: false)");
}

TEST(CallTest, AnOlderIterationsCallsAreSeenThroughWhatTheLoopHandsOn) {
  Expect(R"(graph(%x : Tensor, %n : int, %l : Tensor[]):
  %true : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  %k0 : __torch__.K = prim::CreateObject()
  %p : Tensor = aten::relu(%x)
  %i : NoneType = prim::CallMethod[name="__init__"](%k0, %p)
  %k : __torch__.K, %t : Tensor = prim::Loop(%n, %true, %k0, %p)
    block0(%j : int, %kin : __torch__.K, %tin : Tensor):
      %new : __torch__.K = prim::CreateObject()
      %u : Tensor = prim::CallMethod[name="one"](%kin, %tin)
      %v : NoneType = prim::CallMethod[name="__init__"](%new, %u)
      -> (%true, %new, %u)
  %w : Tensor = prim::CallMethod[name="one"](%k, %t)
  return (%w)
)",
         R"(may_contain_alias %k %k0: true
            may_alias %t %p: true
            may_contain_alias %k %l: false
            has_writers %l: false
            may_alias %w %p: true)");
}

TEST(TypeTest, AnInterfaceMayBeAnyObjectAndAnEnumerationsMemberIsNoMemory) {
  Expect(R"(graph(%s : __torch__.M, %x : Tensor, %e : Enum<__torch__.Color>):
  %m : InterfaceType<I> = prim::GetAttr[name="m"](%s)
  %a : __torch__.A = prim::GetAttr[name="a"](%s)
  %b : __torch__.B = prim::GetAttr[name="b"](%s)
  return (%m)
)",
         R"(may_alias %m %a: true
            may_alias %a %b: false
            may_contain_alias %e %x: false
            may_contain_alias %e %s: false)");
}

TEST(MustTest, ChunksThatAreCopiesOfWhatIsNegatedLazilyAreNotProvenTheSame) {
  // unsafe_chunk and similar operators copy lazily conjugated or negated tensors; a tensor that was just computed is
  // neither.
  Expect(R"(graph(%x : Float(4, 8, strides=[8, 1])):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %y : Float(4, 8, strides=[8, 1]) = aten::relu(%x)
  %l : Tensor[] = aten::unsafe_chunk(%x, %two, %zero)
  %m : Tensor[] = aten::unsafe_chunk(%x, %two, %zero)
  %a : Tensor, %b : Tensor = prim::ListUnpack(%l)
  %c : Tensor, %d : Tensor = prim::ListUnpack(%m)
  %e : Tensor = aten::slice(%x, %zero, %zero, %two, %one)
  %n : Tensor[] = aten::unsafe_chunk(%y, %two, %zero)
  %o : Tensor[] = aten::unsafe_chunk(%y, %two, %zero)
  %f : Tensor, %g : Tensor = prim::ListUnpack(%n)
  %h : Tensor, %i : Tensor = prim::ListUnpack(%o)
  %w : Tensor = aten::add_(%x, %one, %one)
  return (%w)
)",
         R"(must_alias %a %c: false
            may_alias %a %c: true
            may_alias %a %b: false
            must_alias %a %e: false
            must_alias %f %h: true
            can_move_after %l %w: false
            can_move_after %n %w: true)");
}

TEST(WriteTest, ATupleOrFutureIsNeverWritten) {
  Expect(R"(graph(%t : (Tensor, Tensor[]), %f : Future[Tensor]):
  %g : Function = prim::Constant[name="g"]()
  %y : Tensor = prim::CallFunction(%g, %t, %f)
  return (%y)
)",
         R"(has_writers %t: false
            has_writers %f: false
            has_writers %y: true)");
}

TEST(CallTest, ResultsOfACalledGraphMayShareWhatItMakes) {
  // def f(x): y = x.relu(); return y, y.t()       def g(x): y = x.relu(); return y, [y]
  Expect(R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor, %b : Tensor = prim::DifferentiableGraph_0(%x)
  %c : Tensor, %l : Tensor[] = prim::FunctionalGraph_0(%x)
  %w : Tensor = aten::add_(%b, %one, %one)
  return (%a)
with prim::DifferentiableGraph_0 = graph(%x : Tensor):
  %y : Tensor = aten::relu(%x)
  %t : Tensor = aten::t(%y)
  return (%y, %t)
with prim::FunctionalGraph_0 = graph(%x : Tensor):
  %y : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%y)
  return (%y, %l)
)",
         R"(may_alias %a %b: true
            has_writers %a: true
            may_contain_alias %c %l: true
            may_alias %a %x: false
            may_alias %a %c: false)");
}

TEST(CallTest, WhatACalledGraphStoresInAListItWasGivenIsFound) {
  // def f(x, l): y = x.relu(); l.append(y); return y
  Expect(R"(graph(%x : Tensor, %k : Tensor[]):
  %one : int = prim::Constant[value=1]()
  %m : Tensor[] = prim::ListConstruct()
  %y : Tensor = prim::FunctionalGraph_0(%x, %m)
  %n : Tensor = aten::__getitem__(%m, %one)
  %w : Tensor = aten::add_(%n, %one, %one)
  return (%y)
with prim::FunctionalGraph_0 = graph(%x : Tensor, %l : Tensor[]):
  %y : Tensor = aten::relu(%x)
  %m : Tensor[] = aten::append(%l, %y)
  return (%y)
)",
         R"(may_contain_alias %y %m: true
            may_alias %n %y: true
            has_writers %y: true
            has_writers %m: true
            may_alias %m %k: false)");
}

TEST(CallTest, AListOfACalledGraphHoldsViewsAndElementsOfItsArguments) {
  // def f(x, l): p = list(x.split(1)); p.append(l[1]); return p
  Expect(R"(graph(%x : Tensor, %y : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%b)
  %p : Tensor[] = prim::FunctionalGraph_0(%a, %l)
  return (%p)
with prim::FunctionalGraph_0 = graph(%x : Tensor, %l : Tensor[]):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %e : Tensor = aten::__getitem__(%l, %zero)
  %p : Tensor[] = aten::split(%x, %one, %zero)
  %q : Tensor[] = aten::append(%p, %e)
  return (%p)
)",
         R"(may_contain_alias %p %a: true
            may_contain_alias %p %b: true
            may_contain_alias %p %y: false)");
}

TEST(CallTest, AListInAListThatACalledGraphWritesIsWritten) {
  Expect(R"(graph(%x : Tensor):
  %in : Tensor[] = prim::ListConstruct()
  %out : Tensor[][] = prim::ListConstruct(%in)
  %r : Tensor = prim::FunctionalGraph_0(%x, %out)
  %n : int = aten::len(%in)
  return (%n)
with prim::FunctionalGraph_0 = graph(%x : Tensor, %l : Tensor[][]):
  %zero : int = prim::Constant[value=0]()
  %e : Tensor[] = aten::__getitem__(%l, %zero)
  %q : Tensor[] = aten::append(%e, %x)
  return (%x)
)",
         R"(has_writers %in: true
            writes_to_alias_of %r %in: true
            may_contain_alias %in %x: true
            can_move_before %n %r: false)");
}

TEST(CallTest, ATensorThatACalledGraphMovesLivesInTheOther) {
  Expect(R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %r : Tensor = prim::FunctionalGraph_0(%a, %b)
  %w : Tensor = aten::add_(%a, %one, %one)
  return (%b)
with prim::FunctionalGraph_0 = graph(%x : Tensor, %y : Tensor):
  %s : Tensor = aten::set_(%x, %y)
  return (%s)
)",
         R"(may_alias %a %b: true
            has_writers %b: true
            may_alias %r %b: true)");
}

TEST(ViewTest, ADimensionThatNoTensorHasIsNoCrash) {
  Expect(R"(graph(%x : Tensor, %y : Float(4, strides=[1])):
  %zero : int = prim::Constant[value=0]()
  %huge : int = prim::Constant[value=4000000000000]()
  %low : int = prim::Constant[value=-5]()
  %least : int = prim::Constant[value=-9223372036854775808]()
  %a : Tensor = aten::unsqueeze(%x, %huge)
  %b : Tensor = aten::select(%x, %huge, %zero)
  %c : Tensor = aten::transpose(%x, %huge, %zero)
  %d : Tensor = aten::unsqueeze(%y, %low)
  %e : Tensor = aten::diagonal(%x, %least, %low, %zero)
  %f : Tensor[] = aten::chunk(%x, %huge, %huge)
  return (%a, %b, %c, %d, %e, %f)
)",
         R"(may_alias %a %b: true
            may_alias %c %x: true
            may_alias %d %y: true
            may_alias %e %a: true)");
}

TEST(ViewTest, ASliceAlongADimensionThatIsNotKnownMovesTheIndicesOfAny) {
  // With %d == 0, %b is row 1.
  Expect(R"(graph(%x : Float(4, 4, strides=[4, 1]), %d : int):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %s : Tensor = aten::slice(%x, %d, %one, %none, %one)
  %a : Tensor = aten::select(%x, %zero, %one)
  %b : Tensor = aten::select(%s, %zero, %zero)
  return (%a, %b)
)",
         R"(may_alias %a %b: true)");
}

TEST(ViewTest, PiecesOfWhatOverlapsItselfMayBeTheSameBytes) {
  Expect(R"(graph(%x : Float(4, 4, strides=[4, 1]), %y : Tensor):
  %n : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %four : int = prim::Constant[value=4]()
  %s : int[] = prim::ListConstruct(%two, %four, %four)
  %c : Tensor = aten::clone(%y, %n)
  %e : Tensor = aten::expand(%x, %s, %f)
  %l1 : Tensor[] = aten::vsplit(%e, %two)
  %a1 : Tensor, %b1 : Tensor = prim::ListUnpack(%l1)
  %a2 : Tensor, %b2 : Tensor = prim::ConstantChunk[chunks=2, dim=0](%e)
  %u : Tensor = aten::unfold(%c, %zero, %two, %one)
  %l3 : Tensor[] = aten::unbind(%u, %zero)
  %a3 : Tensor, %b3 : Tensor = prim::ListUnpack(%l3)
  %w : Tensor = aten::relu_(%a3)
  %l4 : Tensor[] = aten::unbind(%c, %zero)
  %a4 : Tensor, %b4 : Tensor = prim::ListUnpack(%l4)
  %a5 : Tensor, %b5 : Tensor = prim::ConstantChunk[chunks=2, dim=0](%c)
  return (%n)
)",
         R"(may_alias %a1 %b1: true
            may_alias %a2 %b2: true
            may_alias %a3 %b3: true
            writes_to_alias_of %w %b3: true
            may_alias %a4 %b4: false
            may_alias %a5 %b5: false)");
}

}  // namespace
}  // namespace smelt
