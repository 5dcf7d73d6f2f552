// Families of graphs on which the alias database must be linear: all kinds of combinations of branches, loops,
// containers, views, writes and calls, at any size.
#ifndef SMELT_BENCH_ALIAS_FAMILIES_H_
#define SMELT_BENCH_ALIAS_FAMILIES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "smelt/alias/alias_db.h"
#include "smelt/core/ir/graph.h"

namespace smelt {

struct Family {
  std::string name;
  std::function<std::unique_ptr<Graph>(int64_t nodes)> make;  // about this many nodes, blocks' nodes included
};
// Returns the families that are written by hand, in a stable order.
std::vector<Family> NamedFamilies();
// Those of them that combine several things (combined_families.cc).
std::vector<Family> CombinedFamilies();
// A family that repeats a random tile: a few nested statements over a few values, lists, tuples and dictionaries that
// flow from each tile to the next.
Family TiledFamily(uint64_t seed);
// One that repeats a random program of about 45 kinds of statements (random_families.cc).
Family RandomFamily(uint64_t seed);
// One that repeats a random tile over variables of random types (typed_families.cc).
Family TypedFamily(uint64_t seed);

// Returns the number of nodes and edges: inputs of nodes, results of blocks.
int64_t NodesAndEdges(const Graph& g);

// Asks the queries of a pass over the graph: for every value whether it is written and whether it shares memory with
// the previous one, and more of each kind of query. Returns the number of positive answers.
int64_t AskAll(const Graph& g, const AliasDb& db);
// Asks as many queries, about random values.
int64_t AskAtRandom(const Graph& g, const AliasDb& db, std::mt19937_64& rng);

enum class Order { kFront, kBack, kRandom };
// Inserts readers and writers and erases them again, at `places` places, with a query after each edit.
void InsertAndErase(Graph& g, const AliasDb& db, int64_t places, Order order, std::mt19937_64& rng);
// Removes the nodes through which memory escapes or that call unknown code, one after the other, with a query after
// each.
void RemoveEscapes(Graph& g, const AliasDb& db, int64_t at_most, Order order);
// Makes each operator that works in place pure, one after the other, asking after each: as a pass would that knows
// nothing of what such an edit costs.
void MakeAllPure(Graph& g, const AliasDb& db, int64_t at_most, Order order);
// Gives an argument of a node, or a result of a block, another value of its type that it may have: the one before it in
// its list, or an input of the graph. Asks after each.
void Rewire(Graph& g, const AliasDb& db, int64_t at_most, Order order);

}  // namespace smelt

#endif  // SMELT_BENCH_ALIAS_FAMILIES_H_
