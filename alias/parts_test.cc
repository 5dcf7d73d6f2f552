// The parts of the database that need each other: one claim of each header's, on a graph of a few lines.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/alias/box_of_view.h"
#include "smelt/alias/boxes.h"
#include "smelt/alias/follower.h"
#include "smelt/alias/scenario.h"
#include "smelt/alias/state.h"
#include "smelt/alias/views.h"

namespace smelt::alias_internal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

// A graph with its state, built.
struct Built {
  explicit Built(const std::string& text, AliasDb::Options options = {})
      : g(ParseForTest(text)), s(std::make_unique<AliasDb::State>(*g, options)) {
    s->solver.Build();
    if (s->changes.dirty) s->DropCaches();
  }
  ValueId V(const char* name) const { return g->FindValue(name); }
  NodeId N(const char* name) const { return NodeOf(*g, name); }
  SetId Set(const char* name) const { return s->records.PointsTo(V(name)); }
  uint32_t Object(const char* name) const { return ObjectOf(SetPool::SingleRef(Set(name))); }

  std::unique_ptr<Graph> g;
  std::unique_ptr<AliasDb::State> s;
};

constexpr char kRows[] = R"(graph(%x : Tensor, %n : int):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %a : Tensor = aten::relu(%x)
  %first : Tensor = aten::select(%a, %0, %0)
  %second : Tensor = aten::select(%a, %0, %1)
  %some : Tensor = aten::select(%a, %0, %n)
  %whole : Tensor = aten::detach(%a)
  %w : Tensor = aten::relu_(%first)
  %b : Tensor = aten::relu(%x)
  return (%second)
)";

TEST(RecordsTest, AFactAboutAValueThatIsGoneReadsAsNone) {
  Graph g;
  const ValueId x = g.AddInput("x", Type::Tensor());
  const BlockTree tree(g);
  Records records(g, tree);
  records.Reset();
  const NodeId n = g.Append(g.top(), OpName::Get("aten::relu"), {x}, {Type::Tensor()});
  const ValueId gone = g.node(n).outputs[0];
  records.RecordOf(gone).points_to = SetPool::Single(MakeRef(kFirstObject));
  EXPECT_NE(records.PointsTo(gone), 0);
  g.Erase(n);
  const ValueId other = g.node(g.Append(g.top(), OpName::Get("aten::relu"), {x}, {Type::Tensor()})).outputs[0];
  ASSERT_EQ(other.index, gone.index);
  EXPECT_EQ(records.PointsTo(other), 0);
}

TEST(AccessListsTest, StoragesThatShareAnAccessToSeveralShareAList) {
  Built f(kRows);
  AccessLists& lists = f.s->accesses;
  const auto both = [&](const char* a, const char* b) { return f.s->sets.Union(f.Set(a), f.Set(b)); };
  const uint32_t ab = lists.SetListFor(both("a", "b"));
  EXPECT_EQ(lists.SetListOf(lists.ListOf(f.Object("a"))), ab);
  EXPECT_EQ(lists.SetListOf(lists.ListOf(f.Object("x"))), 0);
  lists.SetListFor(both("b", "x"));  // which joins the two
  EXPECT_EQ(lists.SetListOf(lists.ListOf(f.Object("x"))), lists.SetListOf(lists.ListOf(f.Object("a"))));
  std::vector<uint32_t> all;
  lists.AddListsOf(f.Object("a"), &all);
  lists.AddListsOf(f.Object("a"), &all);
  EXPECT_EQ(all.size(), 2);
}

TEST(AccessRecorderTest, ArgumentsThatAreTheSameTensorNeedOneRecord) {
  const auto records = [](const char* arguments) {
    const Built f(absl::StrCat(R"(graph(%f : __torch__.M, %x : Tensor):
      %a : Tensor = aten::relu(%x)
      %r : Tensor = prim::CallFunction()",
                               arguments, R"()
      return (%r)
    )"));
    int64_t count = 0;
    for (uint32_t i = f.s->records.RecordOf(f.N("r")).first_write; i != 0; i = f.s->accesses.writes.at(i).node_next)
      ++count;
    return count;
  };
  EXPECT_GT(records("%a"), 0);
  EXPECT_EQ(records("%a, %a, %a, %a"), records("%a"));
  EXPECT_GT(records("%a, %x"), records("%a"));
}

TEST(ReshapesTest, OnlyTheHandleThatANodeReshapesChanges) {
  const Built f(R"(graph(%x : Tensor):
    %a : Tensor = aten::relu(%x)
    %b : Tensor = aten::relu(%x)
    %t : Tensor = aten::t_(%a)
    return (%b)
  )");
  EXPECT_EQ(f.s->reshapes.geometry_writers, 1);
  EXPECT_TRUE(f.s->reshapes.GeometryChanges(f.Object("a")));
  EXPECT_FALSE(f.s->reshapes.GeometryChanges(f.Object("b")));
}

constexpr char kList[] = R"(graph(%x : Tensor):
  %0 : int = prim::Constant[value=0]()
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::relu(%x)
  %c : Tensor = aten::relu(%x)
  %l : Tensor[] = prim::ListConstruct(%a)
  %before : Tensor = aten::__getitem__(%l, %0)
  %same : Tensor[] = aten::append(%l, %b)
  %e : Tensor = aten::__getitem__(%l, %0)
  return (%e)
)";

TEST(ContainersTest, AReaderFindsWhatWasStoredBeforeIt) {
  const Built f(kList);
  const Ref l = SetPool::SingleRef(f.Set("l"));
  EXPECT_EQ(f.s->containers.ContentOf(l, kAnySlot, f.N("before")), f.Set("a"));
  EXPECT_EQ(f.s->containers.ContentOf(l, kAnySlot, f.N("e")), f.s->sets.Union(f.Set("a"), f.Set("b")));
  // Where elements are appended, the first ones stay where they are.
  EXPECT_EQ(f.s->containers.ContentOf(l, 0, f.N("e")), f.Set("a"));
}

TEST(StoresTest, AStoreStandsInItsContainerAndAtItsNode) {
  const Built f(kList);
  const auto of_node = f.s->stores.StoresOf(f.N("same"));
  ASSERT_EQ(of_node.size(), 1);
  EXPECT_EQ(of_node[0].first, f.Object("l"));
  EXPECT_EQ(of_node[0].second.value, f.V("b"));
  EXPECT_EQ(f.s->containers.ContentsOf(f.Object("l")).stores.size(), 1);
  f.s->stores.ForgetStores(f.N("same"), f.s->records.RecordOf(f.N("same")), /*push=*/false);
  EXPECT_TRUE(f.s->containers.ContentsOf(f.Object("l")).stores.empty());
  EXPECT_THAT(f.s->stores.StoresOf(f.N("same")), IsEmpty());
}

TEST(MemoryTest, ASetThatGrowsTooLargeIsASummaryOfItsMembers) {
  AliasDb::Options two;
  two.max_set = 2;
  const Built f(kList, two);
  Memory& memory = f.s->memory;
  const SetId ab = memory.Join(f.Set("a"), f.Set("b"));
  EXPECT_EQ(f.s->sets.Size(ab), 2);
  const SetId all = memory.Join(ab, f.Set("c"));
  ASSERT_TRUE(SetPool::IsSingle(all));
  const uint32_t summary = ObjectOf(SetPool::SingleRef(all));
  EXPECT_TRUE(f.s->objects.IsSummary(summary));
  for (const char* member : {"a", "b", "c"}) EXPECT_EQ(f.s->objects.Find(f.Object(member)), summary) << member;
  EXPECT_EQ(memory.Join(all, f.Set("a")), all);
}

TEST(EffectsTest, AppendWritesAndReluIsPure) {
  const Built f(kList);
  OpEffects made;
  EXPECT_TRUE(f.s->effects.EffectsOf(f.g->node(f.N("a")), &made).pure);
  EXPECT_TRUE(f.s->effects.EffectsOf(f.g->node(f.N("same")), &made).writes);
  EXPECT_FALSE(f.s->effects.OnlyComputes(f.N("a")));  // it is no group
}

TEST(EvaluatorTest, ABranchWithAConstantConditionIsTaken) {
  const Built f(R"(graph(%x : Tensor, %c : bool):
    %true : bool = prim::Constant[value=1]()
    %a : Tensor = aten::relu(%x)
    %taken : Tensor = prim::If(%true)
      block0():
        -> (%a)
      block1():
        -> (%x)
    %either : Tensor = prim::If(%c)
      block0():
        -> (%a)
      block1():
        -> (%x)
    return (%taken, %either)
  )");
  EXPECT_EQ(f.s->evaluator.BranchTaken(f.g->node(f.N("taken"))), 0);
  EXPECT_EQ(f.Set("taken"), f.Set("a"));
  EXPECT_EQ(f.s->evaluator.BranchTaken(f.g->node(f.N("either"))), std::nullopt);
  EXPECT_EQ(f.Set("either"), f.s->sets.Union(f.Set("a"), f.Set("x")));
}

TEST(WorkListTest, ANodeIsInTheQueueOnce) {
  const Built f(kRows);
  EXPECT_THAT(f.s->work.queue, IsEmpty());
  f.s->work.Push(f.N("first"));
  f.s->work.Push(f.N("first"));
  EXPECT_THAT(f.s->work.queue, ElementsAre(f.N("first")));
  f.s->solver.Flush();
  EXPECT_THAT(f.s->work.queue, IsEmpty());
}

TEST(SolverTest, AFlushReachesEverythingThatHoldsTheChangedValue) {
  const Built f(R"(graph(%x : Tensor):
    %a : Tensor = aten::relu(%x)
    %b : Tensor = aten::relu(%x)
    %view : Tensor = aten::detach(%a)
    %again : Tensor = aten::detach(%view)
    %w : Tensor = aten::relu_(%again)
    return (%w)
  )");
  const auto storage = [&](const char* name) { return f.s->memory.StoragesOfSet(f.Set(name)); };
  EXPECT_EQ(storage("w"), storage("a"));
  f.g->SetInput(f.N("view"), 0, f.V("b"));
  Follower(*f.s).InputChanged(f.N("view"), 0, f.V("a"));
  EXPECT_THAT(f.s->work.queue, ElementsAre(f.N("view")));
  f.s->solver.Flush();
  EXPECT_THAT(f.s->work.queue, IsEmpty());
  EXPECT_EQ(storage("w"), storage("b"));
  EXPECT_NE(storage("w"), storage("a"));
  EXPECT_EQ(f.s->solver.rebuilds, 0);
}

TEST(SolverTest, ALoopHoldsWhatComesInAndWhatComesAround) {
  const Built f(R"(graph(%x : Tensor, %n : int):
    %true : bool = prim::Constant[value=1]()
    %a : Tensor = aten::relu(%x)
    %out : Tensor = prim::Loop(%n, %true, %a)
      block0(%i : int, %in : Tensor):
        %next : Tensor = aten::relu(%in)
        -> (%true, %next)
    return (%out)
  )");
  // Inside, the last round's allocation is an earlier one.
  const SetId earlier = SetPool::Single(MakeRef(f.Object("next"), /*old=*/true));
  EXPECT_EQ(f.Set("in"), f.s->sets.Union(f.Set("a"), earlier));
  EXPECT_EQ(f.Set("out"), f.s->sets.Union(f.Set("a"), f.Set("next")));
}

TEST(SolverTest, ARebuildTakesBackWhatHasEscaped) {
  const Built f(R"(graph(%x : Tensor):
    %a : Tensor = aten::relu(%x)
    %r : Tensor = mine::unknown(%a)
    return (%x)
  )");
  const uint32_t a = f.Object("a");
  EXPECT_TRUE(f.s->objects[a].escaped);
  const NodeId call = f.N("r");
  Follower(*f.s).NodeErasing(call);
  f.g->Erase(call);
  f.s->solver.Flush();
  EXPECT_EQ(f.s->solver.rebuilds, 1);
  EXPECT_FALSE(f.s->objects[f.Object("a")].escaped);
}

TEST(ReadersTest, AContainerThatChangesHasItsReadersEvaluatedAgain) {
  const Built f(kList);
  f.s->containers.readers.Push(f.Object("l"));
  EXPECT_THAT(f.s->work.queue, IsSupersetOf({f.N("before"), f.N("e")}));
  EXPECT_THAT(f.s->work.queue, Not(Contains(f.N("a"))));
}

TEST(ReadersTest, NodesThatLookOftenAreKeptAFewTimes) {
  const Built f(kList);
  constexpr int kLooks = 1000;
  for (int i = 0; i < kLooks; ++i) f.s->containers.readers.Note(f.Object("l"), f.N(i % 2 == 0 ? "before" : "e"));
  EXPECT_LE(f.s->containers.ContentsOf(f.Object("l")).readers.size(), 20);
}

TEST(FollowerTest, ANodeThatIsInsertedIsEvaluatedByTheNextFlush) {
  const Built f(kRows);
  const NodeId n = f.g->InsertBefore(f.N("w"), OpName::Get("aten::detach"), {f.V("b")}, {Type::Tensor()});
  Follower(*f.s).NodeInserted(n);
  const ValueId made = f.g->node(n).outputs[0];
  EXPECT_EQ(f.s->records.PointsTo(made), 0);
  f.s->solver.Flush();
  EXPECT_EQ(f.s->memory.StoragesOfSet(f.s->records.PointsTo(made)), f.Set("b"));
}

TEST(CopiesTest, ValuesThatRotateHoldWhatAnyOfThemGot) {
  const Built f(R"(graph(%x : Tensor, %n : int):
    %true : bool = prim::Constant[value=1]()
    %a : Tensor = aten::relu(%x)
    %b : Tensor = aten::relu(%x)
    %c : Tensor = aten::relu(%x)
    %p : Tensor, %q : Tensor, %r : Tensor = prim::Loop(%n, %true, %a, %b, %c)
      block0(%i : int, %u : Tensor, %v : Tensor, %w : Tensor):
        -> (%true, %v, %w, %u)
    return (%p)
  )");
  const SetId all = f.s->sets.Union(f.s->sets.Union(f.Set("a"), f.Set("b")), f.Set("c"));
  for (const char* name : {"u", "v", "w", "p", "q", "r"}) EXPECT_EQ(f.Set(name), all) << name;
}

TEST(NumbersTest, SumsAreComparedAsFarAsArithmeticGoes) {
  const Built f(R"(graph(%x : Tensor, %n : int):
    %1 : int = prim::Constant[value=1]()
    %more : int = aten::add(%n, %1)
    %again : int = aten::sub(%more, %1)
    %twice : int = aten::add(%n, %n)
    return (%again, %twice)
  )");
  Numbers& numbers = f.s->numbers;
  EXPECT_EQ(numbers.ConstantInt(f.V("1")), 1);
  EXPECT_EQ(numbers.ConstantInt(f.V("n")), std::nullopt);
  ASSERT_TRUE(numbers.IntOf(f.V("n")).has_value());
  EXPECT_TRUE(*numbers.IntOf(f.V("again")) == *numbers.IntOf(f.V("n")));
  EXPECT_TRUE(*numbers.IntOf(f.V("more")) == *numbers.IntOf(f.V("n")) + 1);
  EXPECT_FALSE(*numbers.IntOf(f.V("twice")) == *numbers.IntOf(f.V("n")));
}

TEST(SameHandlesTest, ANodeThatReturnsItsArgumentIsFollowed) {
  const Built f(kRows);
  EXPECT_EQ(f.s->same.Original(f.V("w")), f.V("first"));
  EXPECT_EQ(f.s->same.Original(f.V("a")), f.V("a"));
  int left = kManyComparisons;
  EXPECT_EQ(f.s->same.SameHandle(f.Object("whole"), &left), f.Object("a"));
  EXPECT_EQ(f.s->same.SameHandle(f.Object("first"), &left), f.Object("first"));
  EXPECT_TRUE(f.s->same.SameView(f.V("w"), f.V("first"), 0, &left));
  EXPECT_FALSE(f.s->same.SameView(f.V("first"), f.V("second"), 0, &left));
}

TEST(GeometriesTest, RowsOfOneTensorAreDisjointIfTheirIndicesAre) {
  const Built f(kRows);
  Geometries& geometries = f.s->geometries;
  EXPECT_EQ(geometries.CompareObjects(f.Object("first"), f.Object("second"), true), Overlap::kDisjoint);
  EXPECT_NE(geometries.CompareObjects(f.Object("first"), f.Object("some"), true), Overlap::kDisjoint);
  EXPECT_TRUE(geometries.HasGeom(f.Object("first")));
  const uint32_t epoch = geometries.epoch();
  geometries.Drop();
  EXPECT_NE(geometries.epoch(), epoch);
  EXPECT_FALSE(geometries.HasGeom(f.Object("first")));
}

constexpr char kTyped[] = R"(graph(%x : Float(4, 8, strides=[8, 1])):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %row : Tensor = aten::select(%x, %0, %1)
  return (%row)
)";

TEST(ViewsTest, ARowBeginsWhereItsIndexAndTheStrideSay) {
  const Built f(kTyped);
  const Geom base = f.s->geometries.GeomOf(f.Object("x"));
  Geom out;
  Views(*f.s).Apply(f.Object("row"), f.N("row"), base, f.Object("x"), /*base_changes=*/false, &out);
  ASSERT_TRUE(out.exact);
  EXPECT_EQ(out.geometry.offset.Constant(), 8);
  ASSERT_EQ(out.geometry.sizes.size(), 1);
  EXPECT_EQ(out.geometry.sizes[0].Constant(), 8);
  EXPECT_EQ(out.geometry.strides[0].Constant(), 1);
}

TEST(ViewsTest, AViewOfATensorThatChangesItsGeometryMayLieAnywhere) {
  const Built f(kTyped);
  const Geom base = f.s->geometries.GeomOf(f.Object("x"));
  Geom out;
  Views(*f.s).Apply(f.Object("row"), f.N("row"), base, f.Object("x"), /*base_changes=*/true, &out);
  EXPECT_FALSE(out.exact);
  EXPECT_EQ(out.space, 0);
}

TEST(BoxOfViewTest, ARowIsOneIndexAlongTheFirstDimension) {
  const Built f(kRows);  // no sizes are known
  const Geom base = f.s->geometries.GeomOf(f.Object("a"));
  Geom out = base;
  TakeBoxOfView(*f.s, f.Object("second"), f.N("second"), base, f.Object("a"), /*piece=*/-1, &out);
  const Interval* const rows = FindKey(&out, /*key=*/0);
  ASSERT_NE(rows, nullptr);
  ASSERT_TRUE(rows->lo.has_value() && rows->hi.has_value());
  EXPECT_EQ(rows->lo->Constant(), 1);
  EXPECT_EQ(rows->hi->Constant(), 2);
}

TEST(OverlapsTest, OnlyMemoryOfTheCallersMayBeTwoThings) {
  const Built f(R"(graph(%x : Tensor, %y : Tensor):
    %a : Tensor = aten::relu(%x)
    %b : Tensor = aten::relu(%x)
    return (%a)
  )");
  Overlaps& overlaps = f.s->queries.overlaps;
  EXPECT_TRUE(overlaps.SetsMayAlias(f.Set("x"), f.Set("y"), false));
  EXPECT_FALSE(overlaps.SetsMayAlias(f.Set("a"), f.Set("b"), false));
  EXPECT_FALSE(overlaps.SetsMayAlias(f.Set("a"), f.Set("x"), false));
  EXPECT_TRUE(overlaps.SetsMayAlias(f.Set("a"), f.Set("a"), false));
  EXPECT_FALSE(TypesMeet(Type::List(Type::Int()), Type::List(Type::Tensor())));
  EXPECT_TRUE(TypesMeet(Type::List(Type::Tensor()), Type::List(Type::Tensor())));
}

TEST(ReachabilityTest, TheCallerReachesItsArgumentsAndWhatIsReturned) {
  const Built f(kRows);
  Reachability& reachability = f.s->queries.reachability;
  EXPECT_TRUE(reachability.ReachableByCaller(f.V("x")));
  EXPECT_TRUE(reachability.ReachableByCaller(f.V("second")));
  EXPECT_FALSE(reachability.ReachableByCaller(f.V("first")));  // another row than the one returned
  EXPECT_FALSE(reachability.ReachableByCaller(f.V("b")));
}

TEST(AbsenceTest, ATensorThatWasJustComputedIsThere) {
  const Built f(kRows);
  EXPECT_FALSE(f.s->queries.absence.MayBeNothing(f.V("a")));
  EXPECT_EQ(f.s->queries.absence.Unrefined(f.V("a")), f.V("a"));
}

TEST(WriteQueriesTest, AWriteConcernsTheRowsThatItTouches) {
  const Built f(kRows);
  WriteQueries& written = f.s->queries.written;
  EXPECT_TRUE(written.Written(f.V("first"), true));
  EXPECT_TRUE(written.Written(f.V("a"), true));
  EXPECT_TRUE(written.Written(f.V("some"), true));
  EXPECT_FALSE(written.Written(f.V("second"), true));
  EXPECT_FALSE(written.Written(f.V("b"), true));
  EXPECT_TRUE(written.WritesTo(f.N("w"), f.V("a")));
  EXPECT_FALSE(written.WritesTo(f.N("w"), f.V("second")));
}

TEST(WordsTest, AnObjectIsNamedAfterTheValueThatItWasMadeFor) {
  const Built f(kRows);
  EXPECT_THAT(f.s->words.Names(f.s->sets.Union(f.Set("b"), f.Set("a"))), ElementsAre("%a", "%b"));
  EXPECT_EQ(f.s->words.RefName(MakeRef(f.Object("a"), /*old=*/true)), "%a of an earlier iteration");
  EXPECT_EQ(f.s->words.ObjectName(kUnknown), "unknown");
}

}  // namespace
}  // namespace smelt::alias_internal
