/* The C interface, from C. Prints the check that fails; exit 0 if none does. */
#include <stdio.h>
#include <string.h>

#include "smelt/runtime/smelt.h"
#include "smelt/runtime/testing/c_bundle.h"

static int failures = 0;
#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      printf("%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition, smelt_last_error()); \
      ++failures;                                                                     \
    }                                                                                 \
  } while (0)

static smelt_value tensor_value(smelt_tensor* t) {
  smelt_value v;
  v.kind = SMELT_KIND_TENSOR;
  v.value.tensor = t;
  return v;
}

int main(void) {
  size_t size;
  const void* bytes = c_test_bundle(&size);
  smelt_program* program = NULL;
  smelt_instance* instance = NULL;
  CHECK(smelt_program_load("/nonexistent.smb", &program) == SMELT_NOT_FOUND);
  CHECK(strstr(smelt_last_error(), "/nonexistent.smb") != NULL);
  CHECK(smelt_program_load_from_memory(bytes, size - 1, &program) == SMELT_DATA_LOSS);
  CHECK(smelt_program_load(NULL, &program) == SMELT_INVALID_ARGUMENT);
  CHECK(smelt_program_load_from_memory(bytes, size, &program) == SMELT_OK);
  CHECK(smelt_program_num_args(program) == 1 && smelt_program_num_outputs(program) == 2);
  CHECK(strcmp(smelt_program_arg_name(program, 0), "x") == 0 && smelt_program_arg_name(program, 1) == NULL);
  smelt_instance_options options = {2, 42};
  CHECK(smelt_instance_create(program, &options, &instance) == SMELT_OK);
  smelt_program_release(program); /* the instance keeps what it needs */

  float data[4] = {-1, 2, -3, 4};
  const int64_t sizes[] = {4}, one[] = {1};
  CHECK(smelt_tensor_borrow(data, sizeof data, SMELT_FLOAT32, 1, sizes, one, 1) == NULL); /* reaches outside */
  smelt_tensor* x = smelt_tensor_borrow(data, sizeof data, SMELT_FLOAT32, 1, sizes, NULL, 0);
  smelt_value arg = tensor_value(x), outputs[2];
  size_t count = 1;
  CHECK(smelt_instance_run(instance, &arg, 1, outputs, &count) == SMELT_INVALID_ARGUMENT); /* no room */
  count = 2;
  CHECK(smelt_instance_run(instance, &arg, 1, outputs, &count) == SMELT_OK);
  CHECK(count == 2 && data[0] == 0 && data[1] == 2 && data[2] == 0 && data[3] == 4);
  CHECK(outputs[0].kind == SMELT_KIND_TENSOR && smelt_tensor_is_same(outputs[0].value.tensor, x));
  const smelt_tensor* y = outputs[1].value.tensor;
  CHECK(!smelt_tensor_shares_storage(y, x) && smelt_tensor_rank(y) == 1 && smelt_tensor_sizes(y)[0] == 4 &&
        smelt_tensor_strides(y)[0] == 1 && smelt_tensor_offset(y) == 0 && smelt_tensor_dtype(y) == SMELT_FLOAT32);
  const float* values = (const float*)smelt_tensor_data(y);
  CHECK(values[0] == 1 && values[1] == 3 && values[2] == 1 && values[3] == 5);
  smelt_call_stats stats;
  smelt_instance_last_call(instance, &stats);
  CHECK(strcmp(stats.variant, "distinct") == 0 && stats.kernel_launches == 2);
  smelt_value_release(&outputs[0]);
  smelt_value_release(&outputs[1]);
  CHECK(outputs[1].kind == SMELT_KIND_NONE);

  /* Into memory of the caller's. */
  smelt_tensor* into = smelt_tensor_create(SMELT_FLOAT32, 1, sizes);
  outputs[1] = tensor_value(into);
  CHECK(smelt_instance_run_into(instance, &arg, 1, outputs, 2) == SMELT_OK);
  CHECK(outputs[1].value.tensor == into && ((const float*)smelt_tensor_data(into))[3] == 5);
  smelt_value_release(&outputs[0]);

  const int64_t wrong[] = {3};
  smelt_tensor* view = smelt_tensor_view(x, 1, wrong, one, 0);
  CHECK(view != NULL && smelt_tensor_shares_storage(view, x));
  CHECK(smelt_tensor_view(x, 1, sizes, sizes, 0) == NULL);
  arg = tensor_value(view);
  count = 2;
  CHECK(smelt_instance_run(instance, &arg, 1, outputs, &count) == SMELT_INVALID_ARGUMENT);
  CHECK(strstr(smelt_last_error(), "\"x\"") != NULL);
  arg = tensor_value(NULL);
  CHECK(smelt_instance_run(instance, &arg, 1, outputs, &count) == SMELT_INVALID_ARGUMENT);

  smelt_tensor* state = NULL;
  CHECK(smelt_instance_state(instance, "unused", &state) == SMELT_OK);
  CHECK(((const float*)smelt_tensor_data(state))[1] == 6);
  CHECK(smelt_instance_state(instance, "other", &state) == SMELT_NOT_FOUND);
  CHECK(smelt_instance_reset(instance) == SMELT_OK);
  smelt_instance_seed(instance, 1);
  smelt_tensor_release(state);
  smelt_tensor_release(view);
  smelt_tensor_release(into);
  smelt_tensor_release(x);
  smelt_instance_release(instance);
  if (failures == 0) puts("ok");
  return failures != 0;
}
