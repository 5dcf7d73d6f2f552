#include "smelt/core/tensor/layout_trace.h"

#include <utility>

namespace smelt {
namespace {

thread_local LayoutTrace* current = nullptr;

}  // namespace

LayoutTrace* LayoutTrace::Current() { return current; }

LayoutTrace::Scope::Scope(LayoutTrace* trace) : before_(std::exchange(current, trace)) {}

LayoutTrace::Scope::~Scope() { current = before_; }

}  // namespace smelt
