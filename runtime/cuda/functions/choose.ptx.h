// Made by make_ptx.sh of choose.cu. Do not edit.
#ifndef SMELT_RUNTIME_CUDA_FUNCTIONS_CHOOSE_PTX_H_
#define SMELT_RUNTIME_CUDA_FUNCTIONS_CHOOSE_PTX_H_

namespace smelt::cuda::functions {

// clang-format off
inline constexpr char kChoosePtx[] = R"ptx(
.version 7.4
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional
(
	.param .b64 cudaGraphSetConditional_param_0,
	.param .b32 cudaGraphSetConditional_param_1
)
;
.visible .entry smelt_choose(
	.param .align 8 .b8 smelt_choose_param_0[56],
	.param .u64 smelt_choose_param_1,
	.param .u64 smelt_choose_param_2,
	.param .u64 .ptr .align 1 smelt_choose_param_3,
	.param .u64 .ptr .align 1 smelt_choose_param_4
)
{
	.reg .pred 	%p<29>;
	.reg .b16 	%rs<18>;
	.reg .b32 	%r<17>;
	.reg .b64 	%rd<38>;
	mov.u32 	%r3, %ctaid.x;
	mov.u32 	%r4, %tid.x;
	or.b32 	%r5, %r3, %r4;
	setp.ne.b32 	%p1, %r5, 0;
	@%p1 bra 	$L__BB0_20;
	mov.b64 	%rd1, smelt_choose_param_0;
	ld.param.b64 	%rd2, [%rd1+24];
	setp.lt.s64 	%p2, %rd2, 1;
	mov.pred 	%p27, 0;
	@%p2 bra 	$L__BB0_8;
	ld.param.b64 	%rd13, [%rd1+16];
	cvta.to.global.u64 	%rd3, %rd13;
	setp.lt.u64 	%p3, %rd2, 4;
	mov.pred 	%p27, 0;
	mov.b64 	%rd31, 0;
	@%p3 bra 	$L__BB0_6;
	and.b64 	%rd31, %rd2, 9223372036854775804;
	mov.pred 	%p26, 0;
	mov.b64 	%rd29, %rd31;
	mov.b64 	%rd30, %rd3;
	mov.pred 	%p23, %p26;
	mov.pred 	%p24, %p26;
	mov.pred 	%p25, %p26;
$L__BB0_4:
	ld.global.b8 	%r6, [%rd30];
	ld.global.b8 	%r7, [%rd30+3];
	shl.b32 	%r8, %r7, 24;
	ld.global.b8 	%r9, [%rd30+2];
	shl.b32 	%r10, %r9, 16;
	ld.global.b8 	%r11, [%rd30+1];
	shl.b32 	%r12, %r11, 8;
	prmt.b32 	%r13, %r12, 0, 0x7771U;
	cvt.u16.u32 	%rs1, %r13;
	setp.ne.b16 	%p4, %rs1, 0;
	prmt.b32 	%r14, %r10, 0, 0x7772U;
	cvt.u16.u32 	%rs2, %r14;
	setp.ne.b16 	%p5, %rs2, 0;
	prmt.b32 	%r15, %r8, 0, 0x7773U;
	cvt.u16.u32 	%rs3, %r15;
	setp.ne.b16 	%p6, %rs3, 0;
	prmt.b32 	%r16, %r6, 0, 0x7770U;
	cvt.u16.u32 	%rs4, %r16;
	setp.ne.b16 	%p7, %rs4, 0;
	or.pred 	%p23, %p23, %p7;
	or.pred 	%p26, %p26, %p6;
	or.pred 	%p25, %p25, %p5;
	or.pred 	%p24, %p24, %p4;
	add.s64 	%rd30, %rd30, 4;
	add.s64 	%rd29, %rd29, -4;
	setp.ne.b64 	%p8, %rd29, 0;
	@%p8 bra 	$L__BB0_4;
	selp.b16 	%rs5, 1, 0, %p25;
	shl.b16 	%rs6, %rs5, 2;
	selp.b16 	%rs7, -1, 0, %p26;
	shl.b16 	%rs8, %rs7, 3;
	or.b16 	%rs9, %rs8, %rs6;
	selp.b16 	%rs10, 1, 0, %p23;
	selp.b16 	%rs11, -1, 0, %p24;
	shl.b16 	%rs12, %rs11, 1;
	or.b16 	%rs13, %rs10, %rs12;
	and.b16 	%rs14, %rs13, 3;
	or.b16 	%rs15, %rs14, %rs9;
	and.b16 	%rs16, %rs15, 15;
	setp.ne.b16 	%p27, %rs16, 0;
	setp.eq.b64 	%p9, %rd2, %rd31;
	@%p9 bra 	$L__BB0_8;
$L__BB0_6:
	add.s64 	%rd37, %rd3, %rd31;
	sub.s64 	%rd36, %rd2, %rd31;
$L__BB0_7:
	ld.global.b8 	%rs17, [%rd37];
	setp.ne.b16 	%p10, %rs17, 0;
	or.pred 	%p27, %p27, %p10;
	add.s64 	%rd37, %rd37, 1;
	add.s64 	%rd36, %rd36, -1;
	setp.eq.b64 	%p11, %rd36, 0;
	@%p11 bra 	$L__BB0_8;
	bra.uni 	$L__BB0_7;
$L__BB0_8:
	ld.param.b64 	%rd4, [%rd1+40];
	setp.lt.s64 	%p12, %rd4, 1;
	@%p12 bra 	$L__BB0_16;
	ld.param.b64 	%rd14, [%rd1+32];
	cvta.to.global.u64 	%rd5, %rd14;
	ld.param.b64 	%rd6, [%rd1+48];
	and.b64 	%rd34, %rd4, 3;
	setp.lt.u64 	%p13, %rd4, 4;
	mov.pred 	%p28, 0;
	mov.b64 	%rd33, 0;
	shl.b64 	%rd28, %rd6, 3;
	@%p13 bra 	$L__BB0_13;
	and.b64 	%rd7, %rd4, 9223372036854775804;
	shl.b64 	%rd8, %rd6, 5;
	shl.b64 	%rd9, %rd6, 4;
	mul.lo.s64 	%rd10, %rd6, 24;
	mov.pred 	%p28, 0;
	mov.b64 	%rd33, 0;
	mov.b64 	%rd32, %rd5;
$L__BB0_11:
	ld.global.b64 	%rd15, [%rd32];
	add.s64 	%rd16, %rd32, %rd28;
	ld.global.b64 	%rd17, [%rd16];
	or.b64 	%rd18, %rd17, %rd15;
	add.s64 	%rd19, %rd32, %rd9;
	ld.global.b64 	%rd20, [%rd19];
	or.b64 	%rd21, %rd20, %rd18;
	add.s64 	%rd22, %rd32, %rd10;
	ld.global.b64 	%rd23, [%rd22];
	or.b64 	%rd24, %rd23, %rd21;
	setp.ne.b64 	%p14, %rd24, 0;
	or.pred 	%p28, %p28, %p14;
	add.s64 	%rd33, %rd33, 4;
	add.s64 	%rd32, %rd32, %rd8;
	setp.ne.b64 	%p15, %rd7, %rd33;
	@%p15 bra 	$L__BB0_11;
	setp.eq.b64 	%p16, %rd34, 0;
	@%p16 bra 	$L__BB0_15;
$L__BB0_13:
	mul.lo.s64 	%rd25, %rd33, %rd6;
	shl.b64 	%rd26, %rd25, 3;
	add.s64 	%rd35, %rd5, %rd26;
$L__BB0_14:
	.pragma "nounroll";
	ld.global.b64 	%rd27, [%rd35];
	setp.ne.b64 	%p17, %rd27, 0;
	or.pred 	%p28, %p28, %p17;
	add.s64 	%rd35, %rd35, %rd28;
	add.s64 	%rd34, %rd34, -1;
	setp.ne.b64 	%p18, %rd34, 0;
	@%p18 bra 	$L__BB0_14;
$L__BB0_15:
	not.pred 	%p19, %p28;
	and.pred 	%p27, %p19, %p27;
$L__BB0_16:
	ld.param.b64 	%rd11, [%rd1];
	setp.eq.b64 	%p20, %rd11, 0;
	@%p20 bra 	$L__BB0_18;
	selp.b32 	%r1, 1, 0, %p27;
	{
	.param .b64 	param0;
	.param .b32 	param1;
	st.param.b32 	[param1], %r1;
	st.param.b64 	[param0], %rd11;
	call.uni cudaGraphSetConditional, (param0, param1);
	}
$L__BB0_18:
	ld.param.b64 	%rd12, [%rd1+8];
	setp.eq.b64 	%p21, %rd12, 0;
	@%p21 bra 	$L__BB0_20;
	not.pred 	%p22, %p27;
	selp.b32 	%r2, 1, 0, %p22;
	{
	.param .b64 	param0;
	.param .b32 	param1;
	st.param.b32 	[param1], %r2;
	st.param.b64 	[param0], %rd12;
	call.uni cudaGraphSetConditional, (param0, param1);
	}
$L__BB0_20:
	ret;
}
)ptx";
// clang-format on

}  // namespace smelt::cuda::functions

#endif  // SMELT_RUNTIME_CUDA_FUNCTIONS_CHOOSE_PTX_H_
