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
  memset(&v, 0, sizeof v);
  v.kind = SMELT_KIND_TENSOR;
  v.value.tensor = t;
  return v;
}

#if defined(__aarch64__)
#define HAND_TARGET "aarch64"
#else
#define HAND_TARGET "x86-64"
#endif

/* A program describes itself. */
static void test_description(const smelt_program* program) {
  smelt_program_info info;
  memset(&info, 0, sizeof info);
  CHECK(smelt_program_describe(program, &info) == SMELT_INVALID_ARGUMENT); /* no struct_size */
  info.struct_size = sizeof info;
  CHECK(smelt_program_describe(program, &info) == SMELT_OK);
  CHECK(strcmp(info.model_name, "hand") == 0 && strcmp(info.target, HAND_TARGET) == 0 && info.bundle_format == 1);
  CHECK(info.num_args == 1 && info.num_results == 2 && info.num_states == 1 && info.num_targets == 1);
  CHECK(info.num_methods == 1 && strcmp(smelt_program_method(program, 0), "forward") == 0);
  CHECK(strcmp(smelt_program_target(program, 0), HAND_TARGET) == 0 && smelt_program_target(program, 1) == NULL);
  /* A caller that knows less gets what it knows. */
  smelt_program_info old;
  memset(&old, 0, sizeof old);
  old.struct_size = offsetof(smelt_program_info, target);
  CHECK(smelt_program_describe(program, &old) == SMELT_OK && old.model_name != NULL && old.target == NULL);

  smelt_arg_info arg;
  arg.struct_size = sizeof arg;
  CHECK(smelt_program_arg(program, 0, &arg) == SMELT_OK);
  CHECK(strcmp(arg.name, "x") == 0 && strcmp(arg.path, "x") == 0 && arg.kind == SMELT_KIND_TENSOR);
  CHECK(arg.dtype == SMELT_FLOAT32 && arg.rank == 1 && arg.dims[0].size == 4 && arg.dims[0].min == 4 &&
        arg.dims[0].max == 4 && strcmp(arg.dims[0].expr, "4") == 0 && arg.strides[0] == 1);
  CHECK(arg.effects == SMELT_WRITES_DATA && !arg.has_constant);
  CHECK(smelt_program_arg(program, 1, &arg) == SMELT_INVALID_ARGUMENT);

  smelt_result_info result;
  result.struct_size = sizeof result;
  CHECK(smelt_program_result(program, 0, &result) == SMELT_OK);
  CHECK(result.place == SMELT_PLACE_IS_ARGUMENT && result.index == 0 && result.rank == 1 && result.dims[0].size == 4);
  CHECK(smelt_program_result(program, 1, &result) == SMELT_OK);
  CHECK(strcmp(result.name, "logits") == 0 && strcmp(result.node, "y") == 0 && strcmp(result.path, "logits") == 0);
  CHECK(result.place == SMELT_PLACE_FRESH && result.dtype == SMELT_FLOAT32 && result.kind == SMELT_KIND_TENSOR);

  smelt_state_info state;
  state.struct_size = sizeof state;
  CHECK(smelt_program_state(program, 0, &state) == SMELT_OK);
  CHECK(strcmp(state.name, "unused") == 0 && state.kind == SMELT_BUFFER && state.rank == 1 && state.sizes[0] == 2 &&
        !state.is_mutated && !state.may_move);

  size_t nodes = 7;
  CHECK(smelt_program_arg_structure(program, &nodes) == NULL || nodes == 0);
  const smelt_node* node = smelt_program_result_structure(program, &nodes);
  CHECK(nodes == 3 && node[0].kind == SMELT_NODE_DICT && node[0].num_children == 2 && node[2].kind == SMELT_NODE_LEAF &&
        node[2].key_kind == SMELT_KEY_NAME && strcmp(node[2].key, "logits") == 0);
}

/* Arguments described in place, and everything about a result at once. */
static void test_call(const smelt_program* program, smelt_instance* instance) {
  float data[5] = {9, -1, 2, -3, 4};
  const int64_t sizes[] = {4};
  smelt_array x;
  memset(&x, 0, sizeof x);
  x.data = data;
  x.bytes = sizeof data;
  x.sizes = sizes;
  x.offset = 1;
  x.dtype = SMELT_FLOAT32;
  x.rank = 1;
  smelt_value item, list;
  memset(&item, 0, sizeof item);
  memset(&list, 0, sizeof list);
  item.kind = SMELT_KIND_ARRAY;
  item.value.array = &x;
  list.kind = SMELT_KIND_LIST; /* of one argument: stands for it */
  list.value.list.items = &item;
  list.value.list.size = 1;
  smelt_result results[2];
  smelt_call call;
  memset(&call, 0, sizeof call);
  call.struct_size = sizeof call;
  call.instance = instance;
  call.args = &list;
  call.num_args = 1;
  call.results = results;
  call.num_results = 2;
  CHECK(smelt_instance_call(&call) == SMELT_OK);
  CHECK(data[0] == 9 && data[1] == 0 && data[2] == 2 && data[3] == 0 && data[4] == 4);
  CHECK(results[0].same_as_argument == 0 && results[0].in_argument == 0 && results[0].in_result == -1);
  CHECK(results[0].array.data == data && results[0].array.offset == 1 &&
        results[0].array.flags == SMELT_ARRAY_ROW_MAJOR && results[0].same_as_result == -1);
  CHECK(results[1].same_as_argument == -1 && results[1].in_argument == -1 && results[1].in_result == -1);
  CHECK(((const float*)results[1].array.data)[3] == 5 && results[1].array.sizes[0] == 4);

  /* As the model returns them: a dictionary of two. */
  smelt_value flat[2], nested;
  flat[0] = results[0].value;
  flat[1] = results[1].value;
  CHECK(smelt_program_nest_results(program, flat, 1, &nested) == SMELT_INVALID_ARGUMENT);
  CHECK(smelt_program_nest_results(program, flat, 2, &nested) == SMELT_OK);
  CHECK(nested.kind == SMELT_KIND_LIST && nested.value.list.size == 2 && flat[0].kind == SMELT_KIND_NONE &&
        nested.value.list.items[1].kind == SMELT_KIND_TENSOR);
  smelt_value_release(&nested);

  /* Nobody may write it, and the model does. */
  x.flags = SMELT_ARRAY_READ_ONLY;
  CHECK(smelt_instance_call(&call) == SMELT_INVALID_ARGUMENT);
  CHECK(strstr(smelt_last_error(), "argument \"x\" is read-only, and the model writes it") != NULL);
  x.flags = 0;
  x.offset = 2;
  CHECK(smelt_instance_call(&call) == SMELT_INVALID_ARGUMENT); /* reaches outside */
  CHECK(strstr(smelt_last_error(), "reaches outside its 20 bytes") != NULL);
  call.num_results = 1;
  CHECK(smelt_instance_call(&call) == SMELT_INVALID_ARGUMENT);
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
  CHECK(strcmp(smelt_version(), "0.1.0") == 0 && strcmp(smelt_dtype_name(SMELT_BFLOAT16), "bfloat16") == 0 &&
        smelt_dtype_size(SMELT_COMPLEX128) == 16 && strcmp(smelt_dtype_name(SMELT_FLOAT8_E5M2), "float8_e5m2") == 0 &&
        smelt_dtype_name(14) == NULL);
  test_description(program);
  smelt_instance_options options = {2, 42};
  CHECK(smelt_instance_create(program, &options, &instance) == SMELT_OK);
  test_call(program, instance);
  smelt_program_release(program); /* the instance keeps what it needs */

  float data[4] = {-1, 2, -3, 4};
  const int64_t sizes[] = {4}, one[] = {1};
  CHECK(smelt_tensor_borrow(data, sizeof data, SMELT_FLOAT32, 1, sizes, one, 1) == NULL); /* reaches outside */
  smelt_tensor* x = smelt_tensor_borrow(data, sizeof data, SMELT_FLOAT32, 1, sizes, NULL, 0);
  smelt_value arg = tensor_value(x), outputs[2];
  size_t count = 1;
  CHECK(smelt_instance_run(instance, &arg, 1, outputs, &count) == SMELT_INVALID_ARGUMENT); /* no room */
  CHECK(strstr(smelt_last_error(), "2 outputs, there is room for 1") != NULL);
  count = 2;
  CHECK(smelt_instance_run(instance, &arg, 1, NULL, &count) == SMELT_INVALID_ARGUMENT);
  CHECK(strcmp(smelt_last_error(), "outputs is null") == 0);
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
  CHECK(((const float*)smelt_tensor_data(state))[1] == 6 && smelt_tensor_is_read_only(state));
  CHECK(smelt_instance_set_state(instance, "unused", state) == SMELT_FAILED_PRECONDITION); /* no call writes it */
  CHECK(smelt_instance_state(instance, "other", &state) == SMELT_NOT_FOUND);
  CHECK(smelt_instance_reset(instance) == SMELT_OK);
  smelt_instance_seed(instance, 1);
  smelt_tensor_release(state);
  smelt_tensor_release(view);
  smelt_tensor_release(into);
  smelt_tensor_release(x);
  smelt_instance_release(instance);

  /* Methods: handles of one instance, which outlive the one that they come from. */
  size_t bytes_of_methods;
  const void* methods = c_methods_bundle(&bytes_of_methods);
  smelt_program *both, *none = NULL;
  smelt_instance *whole, *fill, *read;
  CHECK(smelt_program_load_from_memory(methods, bytes_of_methods, &both) == SMELT_OK);
  CHECK(smelt_program_method(both, 1) != NULL && strcmp(smelt_program_method(both, 1), "read") == 0);
  CHECK(smelt_program_method(both, 2) == NULL);
  CHECK(smelt_program_find_method(both, "raed", &none) == SMELT_NOT_FOUND && none == NULL);
  CHECK(strstr(smelt_last_error(), "did you mean \"read\"?") != NULL);
  CHECK(smelt_instance_create(both, NULL, &whole) == SMELT_OK);
  CHECK(smelt_instance_find_method(whole, "fill", &fill) == SMELT_OK);
  CHECK(smelt_instance_find_method(whole, "read", &read) == SMELT_OK);
  CHECK(smelt_instance_find_method(whole, NULL, &read) == SMELT_INVALID_ARGUMENT);
  smelt_program_release(both);
  float three[] = {10, 20, 30};
  const int64_t rows[] = {3};
  smelt_tensor* row = smelt_tensor_borrow(three, sizeof three, SMELT_FLOAT32, 1, rows, NULL, 0);
  arg = tensor_value(row);
  count = 2;
  CHECK(smelt_instance_run(whole, &arg, 1, outputs, &count) == SMELT_INVALID_ARGUMENT);
  CHECK(strstr(smelt_last_error(), "fill, read") != NULL);
  smelt_instance_release(whole);
  count = 0;
  CHECK(smelt_instance_run(fill, &arg, 1, NULL, &count) == SMELT_OK);
  count = 2;
  CHECK(smelt_instance_run(read, &arg, 1, outputs, &count) == SMELT_OK && count == 2);
  CHECK(((const float*)smelt_tensor_data(outputs[0].value.tensor))[2] == 31 && outputs[1].value.integer == 3);
  smelt_value_release(&outputs[0]);
  /* On the CPU a started call is done. */
  smelt_started* started = NULL;
  count = 2;
  CHECK(smelt_instance_start(read, &arg, 1, 0, outputs, &count, NULL) == SMELT_INVALID_ARGUMENT);
  CHECK(smelt_instance_start(read, NULL, 1, 0, outputs, &count, &started) != SMELT_OK && started == NULL);
  CHECK(smelt_instance_start(read, &arg, 1, 0, outputs, &count, &started) == SMELT_OK && count == 2);
  CHECK(smelt_started_is_done(started) && smelt_started_wait(started) == SMELT_OK);
  CHECK(smelt_tensor_order_before(outputs[0].value.tensor, 0) == SMELT_OK);
  CHECK(smelt_tensor_order_before(NULL, 0) == SMELT_INVALID_ARGUMENT);
  smelt_value_release(&outputs[0]);
  smelt_started_release(started);
  smelt_instance_release(fill);
  smelt_instance_release(read);
  smelt_tensor_release(row);
  if (failures == 0) puts("ok");
  return failures != 0;
}
