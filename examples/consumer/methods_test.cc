// The methods of a bundle as typed functions of one session: decode continues where prefill ended.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cached.h"

int main() {
  const auto model = cached::Model::Load();
  if (!model.ok()) return std::puts("not loaded"), 1;
  auto session = model->NewSession(), whole = model->NewSession();
  auto prompt = decltype(cached::PrefillInputs::prompt)::Empty(3),
       longer = decltype(cached::PrefillInputs::prompt)::Empty(4);
  auto token = decltype(cached::DecodeInputs::token)::Empty();
  auto position = decltype(cached::DecodeInputs::position)::Empty();
  for (int i = 0; i < 3; ++i) prompt.at(0, i) = longer.at(0, i) = i + 2;
  token.at(0, 0) = longer.at(0, 3) = 1;
  position.at(0) = 3;
  if (!session.ok() || !whole.ok() || !session->Prefill({.prompt = prompt}).ok()) return std::puts("no prefill"), 1;
  const auto one = session->Decode({.token = token, .position = position});
  const auto all = whole->Prefill({.prompt = longer});
  if (!one.ok() || !all.ok()) return std::puts("no decode"), 1;
  float worst = 0;
  for (int k = 0; k < 7; ++k) worst = std::max(worst, std::fabs(one->linear_1.at(0, 0, k) - all->linear_1.at(0, 3, k)));
  const auto states = session->states();
  const bool filled = states.ok() && states->k_cache.at(0, 0, 3, 0) != 0 && states->k_cache.at(0, 0, 4, 0) == 0;
  std::printf("decode differs from prefill by at most %g\n", worst);
  return filled && worst < 1e-5f ? 0 : 1;
}
