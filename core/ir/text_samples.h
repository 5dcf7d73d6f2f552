// Graphs as PyTorch 2.13 prints them: scripted, inlined, traced, after constant propagation, frozen. For tests.
#ifndef SMELT_CORE_IR_TEXT_SAMPLES_H_
#define SMELT_CORE_IR_TEXT_SAMPLES_H_

namespace smelt {

inline constexpr char kScripted[] = R"IR(graph(%self : __torch__.M,
      %x.1 : Tensor,
      %y.1 : Tensor?,
      %n.1 : int,
      %d.1 : Dict(str, Tensor)):
  %93 : bool = prim::Constant[value=0]() # model.py:23:65
  %125 : complex = prim::Constant[value=1.+2.j]()
  %124 : (int, str) = prim::Constant[value=(1, "s")]()
  %123 : Device = prim::Constant[value="cpu"]()
  %69 : int = prim::Constant[value=5]() # model.py:20:37
  %56 : int = prim::Constant[value=-1]() # model.py:19:38
  %46 : NoneType = prim::Constant() # model.py:18:20
  %43 : str = prim::Constant[value="k"]() # model.py:17:10
  %40 : str = prim::Constant[value="q\"x"]() # model.py:16:25
  %38 : str = prim::Constant[value="hi\n"]() # model.py:16:14
  %122 : float = prim::Constant[value=inf]()
  %12 : bool = prim::Constant[value=1]() # model.py:10:8
  %15 : int = prim::Constant[value=2]() # model.py:11:19
  %19 : float = prim::Constant[value=1.5]() # model.py:12:23
  %26 : float = prim::Constant[value=1.0000000000000001e-05]() # model.py:15:24
  %54 : int = prim::Constant[value=1]() # model.py:19:39
  %67 : int = prim::Constant[value=3]() # model.py:20:27
  %l : __torch__.torch.nn.modules.linear.Linear = prim::GetAttr[name="l"](%self)
  %a.1 : Tensor = prim::CallMethod[name="forward"](%l, %x.1) # model.py:8:12
  %e.1 : int[] = prim::ListConstruct()
  %a.45 : Tensor = prim::Loop(%n.1, %12, %a.1) # model.py:10:8
    block0(%i.1 : int, %a.43 : Tensor):
      %16 : bool = aten::gt(%i.1, %15) # model.py:11:15
      %a.41 : Tensor = prim::If(%16) # model.py:11:12
        block0():
          %21 : Tensor = aten::add_(%a.43, %19, %54) # model.py:12:16
          %24 : int[] = aten::append(%e.1, %i.1) # model.py:13:16
          -> (%a.43)
        block1():
          %27 : Tensor = aten::mul(%a.43, %26) # model.py:15:20
          %a.7 : Tensor = aten::add(%27, %122, %54) # model.py:15:20
          -> (%a.7)
      -> (%12, %a.41)
   = prim::Print(%38, %a.45, %40) # model.py:16:8
   = aten::_set_item(%d.1, %43, %a.45) # model.py:17:8
  %47 : bool = aten::__isnot__(%y.1, %46) # model.py:18:11
  %a : Tensor = prim::If(%47) # model.py:18:8
    block0():
      %y.7 : Tensor = prim::unchecked_cast(%y.1)
      %53 : Tensor[] = prim::ListConstruct(%a.45, %y.7)
      %a.25 : Tensor = aten::cat(%53, %56) # model.py:19:16
      -> (%a.25)
    block1():
      -> (%a.45)
  %68 : int[] = prim::ListConstruct(%15, %67)
  %z.1 : Tensor = aten::zeros(%68, %69, %46, %123, %46) # model.py:20:12
  %f.1 : Future[Tensor] = prim::fork_0(%a) # model.py:21:12
  %w.1 : Tensor = aten::wait(%f.1) # model.py:22:12
  %84 : int[] = prim::ListConstruct(%54, %15, %67)
  %94 : bool[] = prim::ListConstruct(%12, %93)
  %95 : (Tensor, int[], int[], Tensor, Tensor, (int, str), bool, complex, bool[]) = prim::TupleConstruct(%a, %e.1, %84, %z.1, %w.1, %124, %12, %125, %94)
  return (%95)
with prim::fork_0 = graph(%a : Tensor):
  %1 : Function = prim::Constant[name="g"]()
  %3 : Tensor = prim::CallFunction(%1, %a) # model.py:21:12
  return (%3)
)IR";

inline constexpr char kInlined[] = R"IR(graph(%self : __torch__.M,
      %x.1 : Tensor,
      %y.1 : Tensor?,
      %n.1 : int,
      %d.1 : Dict(str, Tensor)):
  %5 : bool = prim::Constant[value=0]() # model.py:23:65
  %6 : complex = prim::Constant[value=1.+2.j]()
  %7 : (int, str) = prim::Constant[value=(1, "s")]()
  %8 : Device = prim::Constant[value="cpu"]()
  %9 : int = prim::Constant[value=5]() # model.py:20:37
  %10 : int = prim::Constant[value=-1]() # model.py:19:38
  %11 : NoneType = prim::Constant() # model.py:18:20
  %12 : str = prim::Constant[value="k"]() # model.py:17:10
  %13 : str = prim::Constant[value="q\"x"]() # model.py:16:25
  %14 : str = prim::Constant[value="hi\n"]() # model.py:16:14
  %15 : float = prim::Constant[value=inf]()
  %16 : bool = prim::Constant[value=1]() # model.py:10:8
  %17 : int = prim::Constant[value=2]() # model.py:11:19
  %18 : float = prim::Constant[value=1.5]() # model.py:12:23
  %19 : float = prim::Constant[value=1.0000000000000001e-05]() # model.py:15:24
  %20 : int = prim::Constant[value=1]() # model.py:19:39
  %21 : int = prim::Constant[value=3]() # model.py:20:27
  %l : __torch__.torch.nn.modules.linear.Linear = prim::GetAttr[name="l"](%self)
  %weight : Tensor = prim::GetAttr[name="weight"](%l)
  %bias : Tensor = prim::GetAttr[name="bias"](%l)
  %a.1 : Tensor = aten::linear(%x.1, %weight, %bias) # torch/nn/modules/linear.py:134:15
  %e.1 : int[] = prim::ListConstruct()
  %a.45 : Tensor = prim::Loop(%n.1, %16, %a.1) # model.py:10:8
    block0(%i.1 : int, %a.43 : Tensor):
      %28 : bool = aten::gt(%i.1, %17) # model.py:11:15
      %a.41 : Tensor = prim::If(%28) # model.py:11:12
        block0():
          %30 : Tensor = aten::add_(%a.43, %18, %20) # model.py:12:16
          %31 : int[] = aten::append(%e.1, %i.1) # model.py:13:16
          -> (%a.43)
        block1():
          %32 : Tensor = aten::mul(%a.43, %19) # model.py:15:20
          %a.7 : Tensor = aten::add(%32, %15, %20) # model.py:15:20
          -> (%a.7)
      -> (%16, %a.41)
   = prim::Print(%14, %a.45, %13) # model.py:16:8
   = aten::_set_item(%d.1, %12, %a.45) # model.py:17:8
  %34 : bool = aten::__isnot__(%y.1, %11) # model.py:18:11
  %a : Tensor = prim::If(%34) # model.py:18:8
    block0():
      %y.7 : Tensor = prim::unchecked_cast(%y.1)
      %37 : Tensor[] = prim::ListConstruct(%a.45, %y.7)
      %a.25 : Tensor = aten::cat(%37, %10) # model.py:19:16
      -> (%a.25)
    block1():
      -> (%a.45)
  %39 : int[] = prim::ListConstruct(%17, %21)
  %z.1 : Tensor = aten::zeros(%39, %9, %11, %8, %11) # model.py:20:12
  %f.1 : Future[Tensor] = prim::fork_0(%a) # model.py:21:12
  %w.1 : Tensor = aten::wait(%f.1) # model.py:22:12
  %43 : int[] = prim::ListConstruct(%20, %17, %21)
  %44 : bool[] = prim::ListConstruct(%16, %5)
  %45 : (Tensor, int[], int[], Tensor, Tensor, (int, str), bool, complex, bool[]) = prim::TupleConstruct(%a, %e.1, %43, %z.1, %w.1, %7, %16, %6, %44)
  return (%45)
with prim::fork_0 = graph(%a : Tensor):
  %1 : Function = prim::Constant[name="g"]()
  %2 : Tensor = prim::CallFunction(%1, %a) # model.py:21:12
  return (%2)
)IR";

inline constexpr char kTraced[] = R"IR(graph(%x : Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu)):
  %1 : Float(2, strides=[1], requires_grad=0, device=cpu) = prim::Constant[value= 1.0000  2.5000 [ CPUFloatType{2} ]]() # model.py:31:0
  %2 : Device = prim::Constant[value="cpu"]() # model.py:31:0
  %3 : int = prim::Constant[value=6]() # model.py:31:0
  %4 : bool = prim::Constant[value=0]() # model.py:31:0
  %5 : bool = prim::Constant[value=0]() # model.py:31:0
  %6 : NoneType = prim::Constant()
  %7 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::to(%1, %2, %3, %4, %5, %6) # model.py:31:0
  %8 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::detach(%7) # model.py:31:0
  %9 : int = prim::Constant[value=1]() # model.py:31:0
  %y : Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu) = aten::add(%x, %8, %9) # model.py:31:0
  %11 : int = prim::Constant[value=0]() # model.py:31:0
  %12 : int = prim::Constant[value=0]() # model.py:31:0
  %13 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::select(%y, %11, %12) # model.py:31:0
  %14 : Float(requires_grad=0, device=cpu) = prim::Constant[value={3}]() # model.py:31:0
  %15 : Device = prim::Constant[value="cpu"]() # model.py:31:0
  %16 : int = prim::Constant[value=6]() # model.py:31:0
  %17 : bool = prim::Constant[value=0]() # model.py:31:0
  %18 : bool = prim::Constant[value=0]() # model.py:31:0
  %19 : NoneType = prim::Constant()
  %20 : Float(requires_grad=0, device=cpu) = aten::to(%14, %15, %16, %17, %18, %19) # model.py:31:0
  %21 : Float(requires_grad=0, device=cpu) = aten::detach(%20) # model.py:31:0
  %22 : int = prim::Constant[value=1]() # model.py:31:0
  %23 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::add_(%13, %21, %22) # model.py:31:0
  %24 : int = prim::Constant[value=0]() # model.py:31:0
  %25 : int = prim::Constant[value=0]() # model.py:31:0
  %26 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::select(%y, %24, %25) # model.py:31:0
  %27 : bool = prim::Constant[value=0]()
  %28 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::copy_(%26, %23, %27) # model.py:31:0
  %29 : int = prim::Constant[value=-1]() # model.py:31:0
  %30 : int[] = prim::ListConstruct(%29)
  %31 : Float(4, strides=[1], requires_grad=0, device=cpu) = aten::view(%y, %30) # model.py:31:0
  %32 : NoneType = prim::Constant()
  %33 : Float(requires_grad=0, device=cpu) = aten::sum(%31, %32) # model.py:31:0
  %34 : int = prim::Constant[value=20]() # model.py:31:0
  %35 : NoneType = prim::Constant()
  %36 : NoneType = prim::Constant()
  %37 : Device = prim::Constant[value="cpu"]() # model.py:31:0
  %38 : bool = prim::Constant[value=0]() # model.py:31:0
  %39 : Long(20, strides=[1], requires_grad=0, device=cpu) = aten::arange(%34, %35, %36, %37, %38) # model.py:31:0
  %40 : int = prim::Constant[value=2]() # model.py:31:0
  %41 : int = prim::Constant[value=10]() # model.py:31:0
  %42 : int[] = prim::ListConstruct(%40, %41)
  %43 : Long(2, 10, strides=[10, 1], requires_grad=0, device=cpu) = aten::reshape(%39, %42) # model.py:31:0
  %44 : int = prim::Constant[value=0]() # model.py:31:0
  %45 : int = prim::Constant[value=0]() # model.py:31:0
  %46 : int = prim::Constant[value=9223372036854775807]() # model.py:31:0
  %47 : int = prim::Constant[value=1]() # model.py:31:0
  %48 : Long(2, 10, strides=[10, 1], requires_grad=0, device=cpu) = aten::slice(%43, %44, %45, %46, %47) # model.py:31:0
  %49 : int = prim::Constant[value=1]() # model.py:31:0
  %50 : int = prim::Constant[value=0]() # model.py:31:0
  %51 : int = prim::Constant[value=2]() # model.py:31:0
  %52 : int = prim::Constant[value=1]() # model.py:31:0
  %53 : Long(2, 2, strides=[10, 1], requires_grad=0, device=cpu) = aten::slice(%48, %49, %50, %51, %52) # model.py:31:0
  %54 : NoneType = prim::Constant()
  %55 : Long(2, 2, strides=[2, 1], requires_grad=0, device=cpu) = aten::clone(%53, %54) # model.py:31:0
  %56 : Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu) = aten::mul(%y, %55) # model.py:31:0
  %57 : Long(2, 2, strides=[2, 1], requires_grad=0, device=cpu) = prim::Constant[value= 1  2  3  4 [ CPULongType{2,2} ]]() # model.py:31:0
  %58 : Device = prim::Constant[value="cpu"]() # model.py:31:0
  %59 : int = prim::Constant[value=4]() # model.py:31:0
  %60 : bool = prim::Constant[value=0]() # model.py:31:0
  %61 : bool = prim::Constant[value=0]() # model.py:31:0
  %62 : NoneType = prim::Constant()
  %63 : Long(2, 2, strides=[2, 1], requires_grad=0, device=cpu) = aten::to(%57, %58, %59, %60, %61, %62) # model.py:31:0
  %64 : Long(2, 2, strides=[2, 1], requires_grad=0, device=cpu) = aten::detach(%63) # model.py:31:0
  %65 : (Float(requires_grad=0, device=cpu), Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu), Long(2, 2, strides=[2, 1], requires_grad=0, device=cpu)) = prim::TupleConstruct(%33, %56, %64)
  return (%65)
)IR";

inline constexpr char kPropagated[] = R"IR(graph(%x : Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu)):
  %67 : Float(2, strides=[1], requires_grad=0, device=cpu) = prim::Constant[value= 1.0000  2.5000 [ CPUFloatType{2} ]]()
  %9 : int = prim::Constant[value=1]() # model.py:31:0
  %y : Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu) = aten::add(%x, %67, %9) # model.py:31:0
  %11 : int = prim::Constant[value=0]() # model.py:31:0
  %12 : int = prim::Constant[value=0]() # model.py:31:0
  %13 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::select(%y, %11, %12) # model.py:31:0
  %69 : Float(requires_grad=0, device=cpu) = prim::Constant[value={3}]()
  %22 : int = prim::Constant[value=1]() # model.py:31:0
  %23 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::add_(%13, %69, %22) # model.py:31:0
  %24 : int = prim::Constant[value=0]() # model.py:31:0
  %25 : int = prim::Constant[value=0]() # model.py:31:0
  %26 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::select(%y, %24, %25) # model.py:31:0
  %27 : bool = prim::Constant[value=0]()
  %28 : Float(2, strides=[1], requires_grad=0, device=cpu) = aten::copy_(%26, %23, %27) # model.py:31:0
  %70 : int[] = prim::Constant[value=[-1]]()
  %31 : Float(4, strides=[1], requires_grad=0, device=cpu) = aten::view(%y, %70) # model.py:31:0
  %32 : NoneType = prim::Constant()
  %33 : Float(requires_grad=0, device=cpu) = aten::sum(%31, %32) # model.py:31:0
  %76 : Long(2, 2, strides=[2, 1], requires_grad=0, device=cpu) = prim::Constant[value=  0   1  10  11 [ CPULongType{2,2} ]]()
  %56 : Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu) = aten::mul(%y, %76) # model.py:31:0
  %78 : Long(2, 2, strides=[2, 1], requires_grad=0, device=cpu) = prim::Constant[value= 1  2  3  4 [ CPULongType{2,2} ]]()
  %65 : (Float(requires_grad=0, device=cpu), Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu), Long(2, 2, strides=[2, 1], requires_grad=0, device=cpu)) = prim::TupleConstruct(%33, %56, %78)
  return (%65)
)IR";

inline constexpr char kFrozen[] = R"IR(graph(%self : __torch__.torch.nn.modules.container.___torch_mangle_1.Sequential,
      %input.1 : Tensor):
  %20 : int[] = prim::Constant[value=[0, 0]]()
  %19 : int[] = prim::Constant[value=[1, 1]]()
  %7 : int = prim::Constant[value=1]() # torch/nn/modules/conv.py:561:33
  %self.0.bias : Float(1, strides=[1], requires_grad=0, device=cpu) = prim::Constant[value={0.270506}]()
  %self.0.weight : Float(1, 1, 2, 2, strides=[4, 4, 2, 1], requires_grad=0, device=cpu) = prim::Constant[value=(1,1,.,.) =  -0.1615  0.3039   0.0653 -0.3586 [ CPUFloatType{1,1,2,2} ]]()
  %input.5 : Tensor = aten::conv2d(%input.1, %self.0.weight, %self.0.bias, %19, %20, %19, %7) # torch/nn/modules/conv.py:560:15
  %input.9 : Tensor = aten::relu_(%input.5) # torch/nn/functional.py:1769:17
  return (%input.9)
)IR";

// Graphs as PyTorch's optimizers print them, and older forms; written by hand, following torch/csrc/jit/ir/ir.cpp.
inline constexpr char kForms[] = R"IR(graph(%a.1 : Float(4, 4, strides=[4, 1], requires_grad=0, device=cpu),
      %onnx::b : Tensor):
  %3 : (Tensor, Tensor) = prim::TupleConstruct(%a.1, %onnx::b), scope: __module/__module.net # model.py:3:0
  %x : Tensor, %y : Tensor = prim::TupleUnpack(%3)
  %4 : bool = prim::TypeCheck[types=[Float(4, 4, strides=[4, 1], requires_grad=0, device=cpu)]](%x)
  %5 : Tensor = prim::profile[profiled_type=Float(4, 4, strides=[4, 1], requires_grad=0, device=cpu), seen_none=0](%x)
  %6 : Tensor = prim::If(%4)
    block0():
      %7 : Tensor = prim::TensorExprGroup_0(%a.1)
      -> (%7)
    block1():
      %8 : Function = prim::Constant[name="fallback_function", fallback=1]()
      %9 : (Tensor) = prim::CallFunction(%8, %a.1)
      %10 : Tensor = prim::TupleUnpack(%9)
      -> (%10)
  %11 : Tensor = ^MyFunction(True, ("a", 2))(%6, %onnx::b) # model.py:9:4
  %12 : Tensor = onnx::Conv[dilations=[1, 1], group=1, kernel_shape=[3, 3], ratio=0.5, mode="same"](%11, %y)
  %13 : Tensor[] = prim::Constant[value=[<Tensor>, <Tensor>]]()
  %14 : Tensor = prim::Constant[value=<Tensor>]()
  %15 : int[] = prim::Constant[value=annotate(List[int], [])]()
  %16 : Dict(str, int) = prim::Constant[value={"a": 1, "b": 2}]()
  %17 : __torch__.torch.classes.Foo = prim::Constant[value=object(0x55d0c8)]()
  %18 = aten::relu(%14)
  prim::RaiseException(%12)
  return (%12, %18)
with prim::TensorExprGroup_0 = graph(%0 : Float(4, 4, strides=[4, 1])):
  %1 : Tensor = prim::DifferentiableGraph_0(%0)
  return (%1)
with prim::DifferentiableGraph_0 = graph(%0 : Float(4, 4)):
  %1 : Float(4, 4) = aten::relu(%0) # <string>:3:4
  return (%1)
)IR";

// smelt's own graphs.
inline constexpr char kExtended[] = R"IR(graph @"a graph"(%x : Float(s0, 8, strides=[8, 1]),
      %n : int(s0),
      %w : Float(8, 8, strides=[8, 1]) = weight 0,
      %"odd name" : int = const[3]):
  symbol s0 in [2, 64] hint 8
  symbol s1 in [0, inf]
  symbol x.stride0 hint 1
  storage 0 bytes 512
  weight 0 "layer.weight" parameter storage 0 Float(8, 8, strides=[8, 1])
  weight 1 "view" buffer storage 0 Float(2, 2, strides=[16, 1]) offset 3
  %c : Float(2, 2, strides=[1, 2]) = prim::Constant[value=<Float(2, 2, strides=[1, 2]): 1, 2.5, -inf, 0.1>]()
  %h : Half(2, strides=[1]) = prim::Constant[value=<Half(2): 0.333251953125, nan>]() # net.py:3:1 "y = x + 1"
  %z : ComplexFloat(1, strides=[1]) = prim::Constant[value=<ComplexFloat(1): (1, -2)>]() # "a # b.py":3:0
  %e : int[] = smelt::test[a=expr(2*s0), b=exprs(s0, 4, *), c=True, d=type(Float(2, *)), e=annotate(float[], []), f=[1., 2.], g="\"x\n\001", h=[], i=complex(1., -0.), "j k"=1](%n)
  %m : int(2*s0 + 1) = aten::mul.int(%n, %n)
  %o : Float(s0, 8, strides=[8, 1]) = smelt::FusionGroup_0[key="k"](%x, %w)
   = prim::Print(%o)
  return (%o, %m) named ("out", "")
with smelt::FusionGroup_0 = graph @sub(%x : Float(s0, 8, strides=[8, 1]),
      %w : Float(8, 8, strides=[8, 1])):
  %y : Float(s0, 8, strides=[8, 1]) = smelt::cond_0(%x)
    block0():
      -> (%x)
    block1():
      %i : Float(s0, 8, strides=[8, 1]) = aten::relu(%x)
      -> (%i)
  return (%y)
with smelt::cond_0[extra] = graph():
  return ()
)IR";

}  // namespace smelt

#endif  // SMELT_CORE_IR_TEXT_SAMPLES_H_
