/* Says which digit an image shows: a network that PyTorch trained, compiled to a bundle, run from C.
 *   digit BUNDLE
 */
#include <smelt/runtime/smelt.h>
#include <stdio.h>

/* Shades from 0 to 16. */
static const float kImage[8][8] = {
    {0, 3, 13, 16, 9, 0, 0, 0}, {0, 10, 15, 13, 15, 2, 0, 0}, {0, 15, 4, 4, 16, 1, 0, 0},  {0, 0, 0, 5, 16, 2, 0, 0},
    {0, 0, 1, 14, 13, 0, 0, 0}, {0, 0, 10, 16, 5, 0, 0, 0},   {0, 4, 16, 13, 8, 10, 9, 1}, {0, 2, 16, 16, 14, 12, 9, 1},
};

static int Fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, smelt_last_error());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: digit BUNDLE\n");
    return 2;
  }
  smelt_program* program;
  smelt_instance* instance;
  if (smelt_program_load(argv[1], &program) != SMELT_OK) return Fail(argv[1]);
  if (smelt_instance_create(program, NULL, &instance) != SMELT_OK) return Fail("an instance");

  /* The model takes a batch of images, shades from 0 to 1. */
  const int64_t sizes[] = {2, 1, 8, 8};
  smelt_tensor* images = smelt_tensor_create(SMELT_FLOAT32, 4, sizes);
  if (images == NULL) return Fail("a tensor");
  float* shade = smelt_tensor_data(images);
  for (int i = 0; i < 128; ++i) shade[i] = kImage[i % 64 / 8][i % 8] / 16;

  smelt_value argument = {SMELT_KIND_TENSOR, {.tensor = images}}, logits;
  size_t results = 1;
  if (smelt_instance_run(instance, &argument, 1, &logits, &results) != SMELT_OK) return Fail("the model");
  const float* score = smelt_tensor_data(logits.value.tensor);
  int best = 0;
  for (int i = 1; i < 10; ++i) best = score[i] > score[best] ? i : best;
  printf("digit %d, score %.4f\n", best, score[best]);

  smelt_value_release(&logits);
  smelt_tensor_release(images);
  smelt_instance_release(instance);
  smelt_program_release(program);
  return 0;
}
