// Copies of views and of parts. Internal to open_composites.h.
#ifndef SMELT_FUNCTIONALIZE_OPEN_COPIES_H_
#define SMELT_FUNCTIONALIZE_OPEN_COPIES_H_

#include "absl/status/status.h"
#include "smelt/functionalize/composite_opener.h"

namespace smelt {

// unbind_copy(self, dim, out=list): each part is copied to its place, in order.
absl::Status OpenCopiesOfParts(CompositeOpener& o, NodeId n);
// t_copy and similar operators, diag of a matrix: a copied view.
absl::Status OpenViewCopy(CompositeOpener& o, NodeId n);

void AddCopyOpenings(OpeningTable& table);  // parts whose schema says less than they share

}  // namespace smelt

#endif  // SMELT_FUNCTIONALIZE_OPEN_COPIES_H_
