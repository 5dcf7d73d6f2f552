// Made by make_ptx.sh of functions.cu. Do not edit.
#ifndef SMELT_RUNTIME_CUDA_FUNCTIONS_FUNCTIONS_PTX_H_
#define SMELT_RUNTIME_CUDA_FUNCTIONS_FUNCTIONS_PTX_H_

namespace smelt::cuda::functions {

// clang-format off
inline constexpr char kPtx[] = R"ptx(
.version 7.4
.target sm_75
.address_size 64
.visible .entry smelt_move(
	.param .align 8 .b8 smelt_move_param_0[24],
	.param .u64 smelt_move_param_1,
	.param .u64 smelt_move_param_2,
	.param .u64 .ptr .align 1 smelt_move_param_3,
	.param .u64 .ptr .align 1 smelt_move_param_4
)
{
	.reg .pred 	%p<9>;
	.reg .b16 	%rs<2>;
	.reg .b32 	%r<6>;
	.reg .b64 	%rd<35>;
	mov.u32 	%r1, %ctaid.x;
	mov.u32 	%r2, %ntid.x;
	mul.wide.u32 	%rd11, %r1, %r2;
	mov.u32 	%r3, %tid.x;
	cvt.u64.u32 	%rd12, %r3;
	add.s64 	%rd1, %rd11, %rd12;
	mov.u32 	%r4, %nctaid.x;
	mul.wide.u32 	%rd2, %r4, %r2;
	ld.param.b64 	%rd3, [smelt_move_param_0];
	ld.param.b64 	%rd4, [smelt_move_param_0+8];
	ld.param.b64 	%rd5, [smelt_move_param_0+16];
	or.b64 	%rd6, %rd4, %rd3;
	and.b64 	%rd13, %rd6, 15;
	setp.ne.b64 	%p1, %rd13, 0;
	@%p1 bra 	$L__BB0_5;
	bra.uni 	$L__BB0_1;
$L__BB0_5:
	and.b64 	%rd14, %rd6, 3;
	setp.ne.b64 	%p2, %rd14, 0;
	mov.b64 	%rd33, 0;
	@%p2 bra 	$L__BB0_10;
	shr.s64 	%rd15, %rd5, 63;
	shr.u64 	%rd16, %rd15, 62;
	add.s64 	%rd17, %rd5, %rd16;
	shr.s64 	%rd9, %rd17, 2;
	setp.ge.s64 	%p3, %rd1, %rd9;
	@%p3 bra 	$L__BB0_9;
	shl.b64 	%rd31, %rd1, 2;
	shl.b64 	%rd10, %rd2, 2;
	mov.b64 	%rd32, %rd1;
$L__BB0_8:
	add.s64 	%rd18, %rd4, %rd31;
	ld.b32 	%r5, [%rd18];
	add.s64 	%rd19, %rd3, %rd31;
	st.b32 	[%rd19], %r5;
	add.s64 	%rd32, %rd32, %rd2;
	add.s64 	%rd31, %rd31, %rd10;
	setp.lt.s64 	%p4, %rd32, %rd9;
	@%p4 bra 	$L__BB0_8;
$L__BB0_9:
	shl.b64 	%rd33, %rd9, 2;
	bra.uni 	$L__BB0_10;
$L__BB0_1:
	shr.s64 	%rd20, %rd5, 63;
	shr.u64 	%rd21, %rd20, 60;
	add.s64 	%rd22, %rd5, %rd21;
	shr.s64 	%rd7, %rd22, 4;
	setp.ge.s64 	%p5, %rd1, %rd7;
	@%p5 bra 	$L__BB0_4;
	shl.b64 	%rd29, %rd1, 4;
	shl.b64 	%rd8, %rd2, 4;
	mov.b64 	%rd30, %rd1;
$L__BB0_3:
	add.s64 	%rd23, %rd4, %rd29;
	add.s64 	%rd24, %rd3, %rd29;
	ld.b64 	%rd25, [%rd23+8];
	st.b64 	[%rd24+8], %rd25;
	ld.b64 	%rd26, [%rd23];
	st.b64 	[%rd24], %rd26;
	add.s64 	%rd30, %rd30, %rd2;
	add.s64 	%rd29, %rd29, %rd8;
	setp.lt.s64 	%p6, %rd30, %rd7;
	@%p6 bra 	$L__BB0_3;
$L__BB0_4:
	shl.b64 	%rd33, %rd7, 4;
$L__BB0_10:
	add.s64 	%rd34, %rd33, %rd1;
	setp.ge.s64 	%p7, %rd34, %rd5;
	@%p7 bra 	$L__BB0_12;
$L__BB0_11:
	add.s64 	%rd27, %rd4, %rd34;
	ld.b8 	%rs1, [%rd27];
	add.s64 	%rd28, %rd3, %rd34;
	st.b8 	[%rd28], %rs1;
	add.s64 	%rd34, %rd34, %rd2;
	setp.lt.s64 	%p8, %rd34, %rd5;
	@%p8 bra 	$L__BB0_11;
$L__BB0_12:
	ret;
}
.visible .entry smelt_zero(
	.param .align 8 .b8 smelt_zero_param_0[16],
	.param .u64 smelt_zero_param_1,
	.param .u64 smelt_zero_param_2,
	.param .u64 .ptr .align 1 smelt_zero_param_3,
	.param .u64 .ptr .align 1 smelt_zero_param_4
)
{
	.reg .pred 	%p<6>;
	.reg .b32 	%r<5>;
	.reg .b64 	%rd<19>;
	mov.u32 	%r1, %ctaid.x;
	mov.u32 	%r2, %ntid.x;
	mul.wide.u32 	%rd7, %r1, %r2;
	mov.u32 	%r3, %tid.x;
	cvt.u64.u32 	%rd8, %r3;
	add.s64 	%rd1, %rd7, %rd8;
	mov.u32 	%r4, %nctaid.x;
	mul.wide.u32 	%rd2, %r4, %r2;
	ld.param.b64 	%rd3, [smelt_zero_param_0];
	and.b64 	%rd9, %rd3, 7;
	setp.ne.b64 	%p1, %rd9, 0;
	mov.b64 	%rd17, 0;
	ld.param.b64 	%rd4, [smelt_zero_param_0+8];
	@%p1 bra 	$L__BB1_5;
	shr.s64 	%rd10, %rd4, 63;
	shr.u64 	%rd11, %rd10, 61;
	add.s64 	%rd12, %rd4, %rd11;
	shr.s64 	%rd5, %rd12, 3;
	setp.ge.s64 	%p2, %rd1, %rd5;
	@%p2 bra 	$L__BB1_4;
	shl.b64 	%rd13, %rd1, 3;
	add.s64 	%rd15, %rd3, %rd13;
	shl.b64 	%rd6, %rd2, 3;
	mov.b64 	%rd16, %rd1;
$L__BB1_3:
	st.b64 	[%rd15], 0;
	add.s64 	%rd16, %rd16, %rd2;
	add.s64 	%rd15, %rd15, %rd6;
	setp.lt.s64 	%p3, %rd16, %rd5;
	@%p3 bra 	$L__BB1_3;
$L__BB1_4:
	shl.b64 	%rd17, %rd5, 3;
$L__BB1_5:
	add.s64 	%rd18, %rd17, %rd1;
	setp.ge.s64 	%p4, %rd18, %rd4;
	@%p4 bra 	$L__BB1_7;
$L__BB1_6:
	add.s64 	%rd14, %rd3, %rd18;
	st.b8 	[%rd14], 0;
	add.s64 	%rd18, %rd18, %rd2;
	setp.lt.s64 	%p5, %rd18, %rd4;
	@%p5 bra 	$L__BB1_6;
$L__BB1_7:
	ret;
}
.visible .entry smelt_put_back(
	.param .align 8 .b8 smelt_put_back_param_0[48],
	.param .u64 smelt_put_back_param_1,
	.param .u64 smelt_put_back_param_2,
	.param .u64 .ptr .align 1 smelt_put_back_param_3,
	.param .u64 .ptr .align 1 smelt_put_back_param_4
)
{
	.reg .pred 	%p<18>;
	.reg .b16 	%rs<2>;
	.reg .b32 	%r<6>;
	.reg .b64 	%rd<62>;
	ld.param.b64 	%rd4, [smelt_put_back_param_0+32];
	setp.lt.s64 	%p1, %rd4, 1;
	@%p1 bra 	$L__BB2_20;
	mov.b64 	%rd1, smelt_put_back_param_0;
	ld.param.b64 	%rd21, [%rd1+24];
	cvta.to.global.u64 	%rd5, %rd21;
	ld.param.b64 	%rd6, [%rd1+40];
	and.b64 	%rd54, %rd4, 3;
	setp.lt.u64 	%p2, %rd4, 4;
	mov.pred 	%p17, 0;
	mov.b64 	%rd53, 0;
	shl.b64 	%rd51, %rd6, 3;
	@%p2 bra 	$L__BB2_5;
	and.b64 	%rd7, %rd4, 9223372036854775804;
	shl.b64 	%rd8, %rd6, 5;
	shl.b64 	%rd9, %rd6, 4;
	mul.lo.s64 	%rd10, %rd6, 24;
	mov.pred 	%p17, 0;
	mov.b64 	%rd53, 0;
	mov.b64 	%rd52, %rd5;
$L__BB2_3:
	ld.global.b64 	%rd22, [%rd52];
	add.s64 	%rd23, %rd52, %rd51;
	ld.global.b64 	%rd24, [%rd23];
	or.b64 	%rd25, %rd24, %rd22;
	add.s64 	%rd26, %rd52, %rd9;
	ld.global.b64 	%rd27, [%rd26];
	or.b64 	%rd28, %rd27, %rd25;
	add.s64 	%rd29, %rd52, %rd10;
	ld.global.b64 	%rd30, [%rd29];
	or.b64 	%rd31, %rd30, %rd28;
	setp.ne.b64 	%p3, %rd31, 0;
	or.pred 	%p17, %p17, %p3;
	add.s64 	%rd53, %rd53, 4;
	add.s64 	%rd52, %rd52, %rd8;
	setp.ne.b64 	%p4, %rd7, %rd53;
	@%p4 bra 	$L__BB2_3;
	setp.eq.b64 	%p5, %rd54, 0;
	@%p5 bra 	$L__BB2_7;
$L__BB2_5:
	mul.lo.s64 	%rd32, %rd53, %rd6;
	shl.b64 	%rd33, %rd32, 3;
	add.s64 	%rd55, %rd5, %rd33;
$L__BB2_6:
	.pragma "nounroll";
	ld.global.b64 	%rd34, [%rd55];
	setp.ne.b64 	%p6, %rd34, 0;
	or.pred 	%p17, %p17, %p6;
	add.s64 	%rd55, %rd55, %rd51;
	add.s64 	%rd54, %rd54, -1;
	setp.ne.b64 	%p7, %rd54, 0;
	@%p7 bra 	$L__BB2_6;
$L__BB2_7:
	not.pred 	%p8, %p17;
	@%p8 bra 	$L__BB2_20;
	mov.u32 	%r1, %ctaid.x;
	mov.u32 	%r2, %ntid.x;
	mov.u32 	%r3, %tid.x;
	mul.wide.u32 	%rd19, %r1, %r2;
	cvt.u64.u32 	%rd20, %r3;
	mov.u32 	%r4, %nctaid.x;
	add.s64 	%rd2, %rd19, %rd20;
	mul.wide.u32 	%rd3, %r4, %r2;
	ld.param.b64 	%rd11, [%rd1];
	ld.param.b64 	%rd12, [%rd1+8];
	ld.param.b64 	%rd13, [%rd1+16];
	or.b64 	%rd14, %rd12, %rd11;
	and.b64 	%rd35, %rd14, 15;
	setp.ne.b64 	%p9, %rd35, 0;
	@%p9 bra 	$L__BB2_13;
	bra.uni 	$L__BB2_9;
$L__BB2_13:
	and.b64 	%rd36, %rd14, 3;
	setp.ne.b64 	%p10, %rd36, 0;
	mov.b64 	%rd60, 0;
	@%p10 bra 	$L__BB2_18;
	shr.s64 	%rd37, %rd13, 63;
	shr.u64 	%rd38, %rd37, 62;
	add.s64 	%rd39, %rd13, %rd38;
	shr.s64 	%rd17, %rd39, 2;
	setp.ge.s64 	%p11, %rd2, %rd17;
	@%p11 bra 	$L__BB2_17;
	shl.b64 	%rd58, %rd2, 2;
	shl.b64 	%rd18, %rd3, 2;
	mov.b64 	%rd59, %rd2;
$L__BB2_16:
	add.s64 	%rd40, %rd12, %rd58;
	ld.b32 	%r5, [%rd40];
	add.s64 	%rd41, %rd11, %rd58;
	st.b32 	[%rd41], %r5;
	add.s64 	%rd59, %rd59, %rd3;
	add.s64 	%rd58, %rd58, %rd18;
	setp.lt.s64 	%p12, %rd59, %rd17;
	@%p12 bra 	$L__BB2_16;
$L__BB2_17:
	shl.b64 	%rd60, %rd17, 2;
	bra.uni 	$L__BB2_18;
$L__BB2_9:
	shr.s64 	%rd42, %rd13, 63;
	shr.u64 	%rd43, %rd42, 60;
	add.s64 	%rd44, %rd13, %rd43;
	shr.s64 	%rd15, %rd44, 4;
	setp.ge.s64 	%p13, %rd2, %rd15;
	@%p13 bra 	$L__BB2_12;
	shl.b64 	%rd56, %rd2, 4;
	shl.b64 	%rd16, %rd3, 4;
	mov.b64 	%rd57, %rd2;
$L__BB2_11:
	add.s64 	%rd45, %rd12, %rd56;
	add.s64 	%rd46, %rd11, %rd56;
	ld.b64 	%rd47, [%rd45+8];
	st.b64 	[%rd46+8], %rd47;
	ld.b64 	%rd48, [%rd45];
	st.b64 	[%rd46], %rd48;
	add.s64 	%rd57, %rd57, %rd3;
	add.s64 	%rd56, %rd56, %rd16;
	setp.lt.s64 	%p14, %rd57, %rd15;
	@%p14 bra 	$L__BB2_11;
$L__BB2_12:
	shl.b64 	%rd60, %rd15, 4;
$L__BB2_18:
	add.s64 	%rd61, %rd60, %rd2;
	setp.ge.s64 	%p15, %rd61, %rd13;
	@%p15 bra 	$L__BB2_20;
$L__BB2_19:
	add.s64 	%rd49, %rd12, %rd61;
	ld.b8 	%rs1, [%rd49];
	add.s64 	%rd50, %rd11, %rd61;
	st.b8 	[%rd50], %rs1;
	add.s64 	%rd61, %rd61, %rd3;
	setp.lt.s64 	%p16, %rd61, %rd13;
	@%p16 bra 	$L__BB2_19;
$L__BB2_20:
	ret;
}
.visible .entry smelt_copy(
	.param .align 8 .b8 smelt_copy_param_0[232],
	.param .u64 smelt_copy_param_1,
	.param .u64 smelt_copy_param_2,
	.param .u64 .ptr .align 1 smelt_copy_param_3,
	.param .u64 .ptr .align 1 smelt_copy_param_4
)
{
	.reg .pred 	%p<32>;
	.reg .b16 	%rs<3>;
	.reg .b32 	%r<72>;
	.reg .b64 	%rd<92>;
	mov.b64 	%rd1, smelt_copy_param_0;
	mov.u32 	%r17, %ctaid.x;
	mov.u32 	%r18, %ntid.x;
	mul.wide.u32 	%rd20, %r17, %r18;
	mov.u32 	%r19, %tid.x;
	cvt.u64.u32 	%rd21, %r19;
	add.s64 	%rd2, %rd20, %rd21;
	mov.u32 	%r20, %nctaid.x;
	mul.wide.u32 	%rd3, %r20, %r18;
	ld.param.b64 	%rd22, [smelt_copy_param_0+16];
	ld.param.b64 	%rd4, [smelt_copy_param_0+24];
	add.s64 	%rd23, %rd22, -1;
	setp.gt.u64 	%p1, %rd23, 7;
	@%p1 bra 	$L__BB3_47;
	cvt.u32.u64 	%r16, %rd23;
	$L_brx_0: .branchtargets
		$L__BB3_2,
		$L__BB3_13,
		$L__BB3_47,
		$L__BB3_24,
		$L__BB3_47,
		$L__BB3_47,
		$L__BB3_47,
		$L__BB3_35;
	brx.idx 	%r16, $L_brx_0;
$L__BB3_2:
	setp.ge.s64 	%p20, %rd2, %rd4;
	@%p20 bra 	$L__BB3_39;
	ld.param.b32 	%r1, [%rd1+32];
	ld.param.b64 	%rd5, [%rd1];
	ld.param.b64 	%rd6, [%rd1+8];
	add.s32 	%r2, %r1, 1;
	mad.lo.s32 	%r3, %r1, 3, -3;
	setp.lt.s32 	%p21, %r1, 1;
	bra.uni 	$L__BB3_4;
$L__BB3_5:
	ld.b8 	%rs2, [%rd68];
	st.b8 	[%rd67], %rs2;
	add.s64 	%rd2, %rd2, %rd3;
	setp.lt.s64 	%p25, %rd2, %rd4;
	@%p25 bra 	$L__BB3_4;
	bra.uni 	$L__BB3_39;
$L__BB3_4:
	mov.b64 	%rd67, %rd5;
	mov.b64 	%rd68, %rd6;
	mov.b32 	%r62, %r3;
	mov.b32 	%r63, %r2;
	mov.b64 	%rd69, %rd2;
	@%p21 bra 	$L__BB3_5;
	bra.uni 	$L__BB3_6;
$L__BB3_7:
	cvt.u32.u64 	%r49, %rd69;
	cvt.u32.u64 	%r50, %rd50;
	div.u32 	%r51, %r49, %r50;
	cvt.u64.u32 	%rd69, %r51;
	mul.lo.s32 	%r52, %r51, %r50;
	sub.s32 	%r53, %r49, %r52;
	cvt.u64.u32 	%rd71, %r53;
$L__BB3_12:
	ld.param.b64 	%rd55, [%rd7+48];
	mad.lo.s64 	%rd67, %rd55, %rd71, %rd67;
	ld.param.b64 	%rd56, [%rd7+56];
	mad.lo.s64 	%rd68, %rd56, %rd71, %rd68;
	add.s32 	%r63, %r63, -1;
	add.s32 	%r62, %r62, -3;
	setp.gt.u32 	%p24, %r63, 1;
	@%p24 bra 	$L__BB3_6;
	bra.uni 	$L__BB3_5;
$L__BB3_6:
	mul.wide.u32 	%rd49, %r62, 8;
	add.s64 	%rd7, %rd1, %rd49;
	ld.param.b64 	%rd50, [%rd7+40];
	max.s64 	%rd51, %rd69, %rd50;
	setp.gt.s64 	%p22, %rd51, 4294967295;
	@%p22 bra 	$L__BB3_8;
	bra.uni 	$L__BB3_7;
$L__BB3_8:
	or.b64 	%rd52, %rd69, %rd50;
	and.b64 	%rd53, %rd52, -4294967296;
	setp.ne.b64 	%p23, %rd53, 0;
	@%p23 bra 	$L__BB3_10;
	bra.uni 	$L__BB3_9;
$L__BB3_10:
	div.s64 	%rd70, %rd69, %rd50;
	bra.uni 	$L__BB3_11;
$L__BB3_9:
	cvt.u32.u64 	%r46, %rd50;
	cvt.u32.u64 	%r47, %rd69;
	div.u32 	%r48, %r47, %r46;
	cvt.u64.u32 	%rd70, %r48;
$L__BB3_11:
	mul.lo.s64 	%rd54, %rd70, %rd50;
	sub.s64 	%rd71, %rd69, %rd54;
	mov.b64 	%rd69, %rd70;
	bra.uni 	$L__BB3_12;
$L__BB3_24:
	setp.ge.s64 	%p8, %rd2, %rd4;
	@%p8 bra 	$L__BB3_39;
	ld.param.b32 	%r7, [%rd1+32];
	ld.param.b64 	%rd11, [%rd1];
	ld.param.b64 	%rd12, [%rd1+8];
	add.s32 	%r8, %r7, 1;
	mad.lo.s32 	%r9, %r7, 3, -3;
	setp.lt.s32 	%p9, %r7, 1;
	bra.uni 	$L__BB3_26;
$L__BB3_27:
	ld.b32 	%r37, [%rd78];
	st.b32 	[%rd77], %r37;
	add.s64 	%rd2, %rd2, %rd3;
	setp.lt.s64 	%p13, %rd2, %rd4;
	@%p13 bra 	$L__BB3_26;
	bra.uni 	$L__BB3_39;
$L__BB3_26:
	mov.b64 	%rd77, %rd11;
	mov.b64 	%rd78, %rd12;
	mov.b32 	%r66, %r9;
	mov.b32 	%r67, %r8;
	mov.b64 	%rd79, %rd2;
	@%p9 bra 	$L__BB3_27;
	bra.uni 	$L__BB3_28;
$L__BB3_29:
	cvt.u32.u64 	%r32, %rd79;
	cvt.u32.u64 	%r33, %rd34;
	div.u32 	%r34, %r32, %r33;
	cvt.u64.u32 	%rd79, %r34;
	mul.lo.s32 	%r35, %r34, %r33;
	sub.s32 	%r36, %r32, %r35;
	cvt.u64.u32 	%rd81, %r36;
$L__BB3_34:
	ld.param.b64 	%rd39, [%rd13+48];
	mad.lo.s64 	%rd77, %rd39, %rd81, %rd77;
	ld.param.b64 	%rd40, [%rd13+56];
	mad.lo.s64 	%rd78, %rd40, %rd81, %rd78;
	add.s32 	%r67, %r67, -1;
	add.s32 	%r66, %r66, -3;
	setp.gt.u32 	%p12, %r67, 1;
	@%p12 bra 	$L__BB3_28;
	bra.uni 	$L__BB3_27;
$L__BB3_28:
	mul.wide.u32 	%rd33, %r66, 8;
	add.s64 	%rd13, %rd1, %rd33;
	ld.param.b64 	%rd34, [%rd13+40];
	max.s64 	%rd35, %rd79, %rd34;
	setp.gt.s64 	%p10, %rd35, 4294967295;
	@%p10 bra 	$L__BB3_30;
	bra.uni 	$L__BB3_29;
$L__BB3_30:
	or.b64 	%rd36, %rd79, %rd34;
	and.b64 	%rd37, %rd36, -4294967296;
	setp.ne.b64 	%p11, %rd37, 0;
	@%p11 bra 	$L__BB3_32;
	bra.uni 	$L__BB3_31;
$L__BB3_32:
	div.s64 	%rd80, %rd79, %rd34;
	bra.uni 	$L__BB3_33;
$L__BB3_31:
	cvt.u32.u64 	%r29, %rd34;
	cvt.u32.u64 	%r30, %rd79;
	div.u32 	%r31, %r30, %r29;
	cvt.u64.u32 	%rd80, %r31;
$L__BB3_33:
	mul.lo.s64 	%rd38, %rd80, %rd34;
	sub.s64 	%rd81, %rd79, %rd38;
	mov.b64 	%rd79, %rd80;
	bra.uni 	$L__BB3_34;
$L__BB3_13:
	setp.ge.s64 	%p14, %rd2, %rd4;
	@%p14 bra 	$L__BB3_39;
	ld.param.b32 	%r4, [%rd1+32];
	ld.param.b64 	%rd8, [%rd1];
	ld.param.b64 	%rd9, [%rd1+8];
	add.s32 	%r5, %r4, 1;
	mad.lo.s32 	%r6, %r4, 3, -3;
	setp.lt.s32 	%p15, %r4, 1;
	bra.uni 	$L__BB3_15;
$L__BB3_16:
	ld.b16 	%rs1, [%rd73];
	st.b16 	[%rd72], %rs1;
	add.s64 	%rd2, %rd2, %rd3;
	setp.lt.s64 	%p19, %rd2, %rd4;
	@%p19 bra 	$L__BB3_15;
	bra.uni 	$L__BB3_39;
$L__BB3_15:
	mov.b64 	%rd72, %rd8;
	mov.b64 	%rd73, %rd9;
	mov.b32 	%r64, %r6;
	mov.b32 	%r65, %r5;
	mov.b64 	%rd74, %rd2;
	@%p15 bra 	$L__BB3_16;
	bra.uni 	$L__BB3_17;
$L__BB3_18:
	cvt.u32.u64 	%r41, %rd74;
	cvt.u32.u64 	%r42, %rd42;
	div.u32 	%r43, %r41, %r42;
	cvt.u64.u32 	%rd74, %r43;
	mul.lo.s32 	%r44, %r43, %r42;
	sub.s32 	%r45, %r41, %r44;
	cvt.u64.u32 	%rd76, %r45;
$L__BB3_23:
	ld.param.b64 	%rd47, [%rd10+48];
	mad.lo.s64 	%rd72, %rd47, %rd76, %rd72;
	ld.param.b64 	%rd48, [%rd10+56];
	mad.lo.s64 	%rd73, %rd48, %rd76, %rd73;
	add.s32 	%r65, %r65, -1;
	add.s32 	%r64, %r64, -3;
	setp.gt.u32 	%p18, %r65, 1;
	@%p18 bra 	$L__BB3_17;
	bra.uni 	$L__BB3_16;
$L__BB3_17:
	mul.wide.u32 	%rd41, %r64, 8;
	add.s64 	%rd10, %rd1, %rd41;
	ld.param.b64 	%rd42, [%rd10+40];
	max.s64 	%rd43, %rd74, %rd42;
	setp.gt.s64 	%p16, %rd43, 4294967295;
	@%p16 bra 	$L__BB3_19;
	bra.uni 	$L__BB3_18;
$L__BB3_19:
	or.b64 	%rd44, %rd74, %rd42;
	and.b64 	%rd45, %rd44, -4294967296;
	setp.ne.b64 	%p17, %rd45, 0;
	@%p17 bra 	$L__BB3_21;
	bra.uni 	$L__BB3_20;
$L__BB3_21:
	div.s64 	%rd75, %rd74, %rd42;
	bra.uni 	$L__BB3_22;
$L__BB3_20:
	cvt.u32.u64 	%r38, %rd42;
	cvt.u32.u64 	%r39, %rd74;
	div.u32 	%r40, %r39, %r38;
	cvt.u64.u32 	%rd75, %r40;
$L__BB3_22:
	mul.lo.s64 	%rd46, %rd75, %rd42;
	sub.s64 	%rd76, %rd74, %rd46;
	mov.b64 	%rd74, %rd75;
	bra.uni 	$L__BB3_23;
$L__BB3_35:
	setp.ge.s64 	%p2, %rd2, %rd4;
	@%p2 bra 	$L__BB3_39;
	ld.param.b32 	%r10, [%rd1+32];
	ld.param.b64 	%rd14, [%rd1];
	ld.param.b64 	%rd15, [%rd1+8];
	add.s32 	%r11, %r10, 1;
	mad.lo.s32 	%r12, %r10, 3, -3;
	setp.lt.s32 	%p3, %r10, 1;
	bra.uni 	$L__BB3_37;
$L__BB3_38:
	ld.b64 	%rd32, [%rd83];
	st.b64 	[%rd82], %rd32;
	add.s64 	%rd2, %rd2, %rd3;
	setp.lt.s64 	%p7, %rd2, %rd4;
	@%p7 bra 	$L__BB3_37;
	bra.uni 	$L__BB3_39;
$L__BB3_37:
	mov.b64 	%rd82, %rd14;
	mov.b64 	%rd83, %rd15;
	mov.b32 	%r68, %r12;
	mov.b32 	%r69, %r11;
	mov.b64 	%rd84, %rd2;
	@%p3 bra 	$L__BB3_38;
	bra.uni 	$L__BB3_40;
$L__BB3_41:
	cvt.u32.u64 	%r24, %rd84;
	cvt.u32.u64 	%r25, %rd25;
	div.u32 	%r26, %r24, %r25;
	cvt.u64.u32 	%rd84, %r26;
	mul.lo.s32 	%r27, %r26, %r25;
	sub.s32 	%r28, %r24, %r27;
	cvt.u64.u32 	%rd86, %r28;
$L__BB3_46:
	ld.param.b64 	%rd30, [%rd16+48];
	mad.lo.s64 	%rd82, %rd30, %rd86, %rd82;
	ld.param.b64 	%rd31, [%rd16+56];
	mad.lo.s64 	%rd83, %rd31, %rd86, %rd83;
	add.s32 	%r69, %r69, -1;
	add.s32 	%r68, %r68, -3;
	setp.gt.u32 	%p6, %r69, 1;
	@%p6 bra 	$L__BB3_40;
	bra.uni 	$L__BB3_38;
$L__BB3_40:
	mul.wide.u32 	%rd24, %r68, 8;
	add.s64 	%rd16, %rd1, %rd24;
	ld.param.b64 	%rd25, [%rd16+40];
	max.s64 	%rd26, %rd84, %rd25;
	setp.gt.s64 	%p4, %rd26, 4294967295;
	@%p4 bra 	$L__BB3_42;
	bra.uni 	$L__BB3_41;
$L__BB3_42:
	or.b64 	%rd27, %rd84, %rd25;
	and.b64 	%rd28, %rd27, -4294967296;
	setp.ne.b64 	%p5, %rd28, 0;
	@%p5 bra 	$L__BB3_44;
	bra.uni 	$L__BB3_43;
$L__BB3_44:
	div.s64 	%rd85, %rd84, %rd25;
	bra.uni 	$L__BB3_45;
$L__BB3_43:
	cvt.u32.u64 	%r21, %rd25;
	cvt.u32.u64 	%r22, %rd84;
	div.u32 	%r23, %r22, %r21;
	cvt.u64.u32 	%rd85, %r23;
$L__BB3_45:
	mul.lo.s64 	%rd29, %rd85, %rd25;
	sub.s64 	%rd86, %rd84, %rd29;
	mov.b64 	%rd84, %rd85;
	bra.uni 	$L__BB3_46;
$L__BB3_47:
	setp.ge.s64 	%p26, %rd2, %rd4;
	@%p26 bra 	$L__BB3_39;
	ld.param.b32 	%r13, [%rd1+32];
	ld.param.b64 	%rd17, [%rd1];
	ld.param.b64 	%rd18, [%rd1+8];
	add.s32 	%r14, %r13, 1;
	mad.lo.s32 	%r15, %r13, 3, -3;
	setp.lt.s32 	%p27, %r13, 1;
	bra.uni 	$L__BB3_49;
$L__BB3_50:
	ld.b64 	%rd65, [%rd88+8];
	st.b64 	[%rd87+8], %rd65;
	ld.b64 	%rd66, [%rd88];
	st.b64 	[%rd87], %rd66;
	add.s64 	%rd2, %rd2, %rd3;
	setp.lt.s64 	%p31, %rd2, %rd4;
	@%p31 bra 	$L__BB3_49;
	bra.uni 	$L__BB3_39;
$L__BB3_49:
	mov.b64 	%rd87, %rd17;
	mov.b64 	%rd88, %rd18;
	mov.b32 	%r70, %r15;
	mov.b32 	%r71, %r14;
	mov.b64 	%rd89, %rd2;
	@%p27 bra 	$L__BB3_50;
	bra.uni 	$L__BB3_51;
$L__BB3_52:
	cvt.u32.u64 	%r57, %rd89;
	cvt.u32.u64 	%r58, %rd58;
	div.u32 	%r59, %r57, %r58;
	cvt.u64.u32 	%rd89, %r59;
	mul.lo.s32 	%r60, %r59, %r58;
	sub.s32 	%r61, %r57, %r60;
	cvt.u64.u32 	%rd91, %r61;
$L__BB3_57:
	ld.param.b64 	%rd63, [%rd19+48];
	mad.lo.s64 	%rd87, %rd63, %rd91, %rd87;
	ld.param.b64 	%rd64, [%rd19+56];
	mad.lo.s64 	%rd88, %rd64, %rd91, %rd88;
	add.s32 	%r71, %r71, -1;
	add.s32 	%r70, %r70, -3;
	setp.gt.u32 	%p30, %r71, 1;
	@%p30 bra 	$L__BB3_51;
	bra.uni 	$L__BB3_50;
$L__BB3_51:
	mul.wide.u32 	%rd57, %r70, 8;
	add.s64 	%rd19, %rd1, %rd57;
	ld.param.b64 	%rd58, [%rd19+40];
	max.s64 	%rd59, %rd89, %rd58;
	setp.gt.s64 	%p28, %rd59, 4294967295;
	@%p28 bra 	$L__BB3_53;
	bra.uni 	$L__BB3_52;
$L__BB3_53:
	or.b64 	%rd60, %rd89, %rd58;
	and.b64 	%rd61, %rd60, -4294967296;
	setp.ne.b64 	%p29, %rd61, 0;
	@%p29 bra 	$L__BB3_55;
	bra.uni 	$L__BB3_54;
$L__BB3_55:
	div.s64 	%rd90, %rd89, %rd58;
	bra.uni 	$L__BB3_56;
$L__BB3_54:
	cvt.u32.u64 	%r54, %rd58;
	cvt.u32.u64 	%r55, %rd89;
	div.u32 	%r56, %r55, %r54;
	cvt.u64.u32 	%rd90, %r56;
$L__BB3_56:
	mul.lo.s64 	%rd62, %rd90, %rd58;
	sub.s64 	%rd91, %rd89, %rd62;
	mov.b64 	%rd89, %rd90;
	bra.uni 	$L__BB3_57;
$L__BB3_39:
	ret;
}
.visible .entry smelt_put_back_items(
	.param .align 8 .b8 smelt_put_back_items_param_0[256],
	.param .u64 smelt_put_back_items_param_1,
	.param .u64 smelt_put_back_items_param_2,
	.param .u64 .ptr .align 1 smelt_put_back_items_param_3,
	.param .u64 .ptr .align 1 smelt_put_back_items_param_4
)
{
	.reg .pred 	%p<41>;
	.reg .b16 	%rs<3>;
	.reg .b32 	%r<72>;
	.reg .b64 	%rd<118>;
	ld.param.b64 	%rd4, [smelt_put_back_items_param_0+8];
	setp.lt.s64 	%p1, %rd4, 1;
	@%p1 bra 	$L__BB4_47;
	mov.b64 	%rd1, smelt_put_back_items_param_0;
	ld.param.b64 	%rd29, [%rd1];
	cvta.to.global.u64 	%rd5, %rd29;
	ld.param.b64 	%rd6, [%rd1+16];
	and.b64 	%rd91, %rd4, 3;
	setp.lt.u64 	%p2, %rd4, 4;
	mov.pred 	%p40, 0;
	mov.b64 	%rd90, 0;
	shl.b64 	%rd88, %rd6, 3;
	@%p2 bra 	$L__BB4_5;
	and.b64 	%rd7, %rd4, 9223372036854775804;
	shl.b64 	%rd8, %rd6, 5;
	shl.b64 	%rd9, %rd6, 4;
	mul.lo.s64 	%rd10, %rd6, 24;
	mov.pred 	%p40, 0;
	mov.b64 	%rd90, 0;
	mov.b64 	%rd89, %rd5;
$L__BB4_3:
	ld.global.b64 	%rd30, [%rd89];
	add.s64 	%rd31, %rd89, %rd88;
	ld.global.b64 	%rd32, [%rd31];
	or.b64 	%rd33, %rd32, %rd30;
	add.s64 	%rd34, %rd89, %rd9;
	ld.global.b64 	%rd35, [%rd34];
	or.b64 	%rd36, %rd35, %rd33;
	add.s64 	%rd37, %rd89, %rd10;
	ld.global.b64 	%rd38, [%rd37];
	or.b64 	%rd39, %rd38, %rd36;
	setp.ne.b64 	%p3, %rd39, 0;
	or.pred 	%p40, %p40, %p3;
	add.s64 	%rd90, %rd90, 4;
	add.s64 	%rd89, %rd89, %rd8;
	setp.ne.b64 	%p4, %rd7, %rd90;
	@%p4 bra 	$L__BB4_3;
	setp.eq.b64 	%p5, %rd91, 0;
	@%p5 bra 	$L__BB4_7;
$L__BB4_5:
	mul.lo.s64 	%rd40, %rd90, %rd6;
	shl.b64 	%rd41, %rd40, 3;
	add.s64 	%rd92, %rd5, %rd41;
$L__BB4_6:
	.pragma "nounroll";
	ld.global.b64 	%rd42, [%rd92];
	setp.ne.b64 	%p6, %rd42, 0;
	or.pred 	%p40, %p40, %p6;
	add.s64 	%rd92, %rd92, %rd88;
	add.s64 	%rd91, %rd91, -1;
	setp.ne.b64 	%p7, %rd91, 0;
	@%p7 bra 	$L__BB4_6;
$L__BB4_7:
	not.pred 	%p8, %p40;
	@%p8 bra 	$L__BB4_47;
	mov.u32 	%r16, %ctaid.x;
	mov.u32 	%r17, %ntid.x;
	mov.u32 	%r18, %tid.x;
	mul.wide.u32 	%rd27, %r16, %r17;
	cvt.u64.u32 	%rd28, %r18;
	mov.u32 	%r19, %nctaid.x;
	add.s64 	%rd2, %rd27, %rd28;
	mul.wide.u32 	%rd3, %r19, %r17;
	ld.param.b64 	%rd43, [%rd1+40];
	ld.param.b64 	%rd11, [%rd1+48];
	add.s64 	%rd44, %rd43, -1;
	setp.gt.u64 	%p9, %rd44, 7;
	@%p9 bra 	$L__BB4_55;
	cvt.u32.u64 	%r20, %rd44;
	$L_brx_0: .branchtargets
		$L__BB4_10,
		$L__BB4_21,
		$L__BB4_55,
		$L__BB4_32,
		$L__BB4_55,
		$L__BB4_55,
		$L__BB4_55,
		$L__BB4_43;
	brx.idx 	%r20, $L_brx_0;
$L__BB4_10:
	setp.ge.s64 	%p28, %rd2, %rd11;
	@%p28 bra 	$L__BB4_47;
	ld.param.b32 	%r1, [%rd1+56];
	ld.param.b64 	%rd12, [%rd1+24];
	ld.param.b64 	%rd13, [%rd1+32];
	add.s32 	%r2, %r1, 1;
	mad.lo.s32 	%r3, %r1, 3, -3;
	setp.lt.s32 	%p29, %r1, 1;
	bra.uni 	$L__BB4_12;
$L__BB4_13:
	ld.b8 	%rs2, [%rd94];
	st.b8 	[%rd93], %rs2;
	add.s64 	%rd2, %rd2, %rd3;
	setp.lt.s64 	%p33, %rd2, %rd11;
	@%p33 bra 	$L__BB4_12;
	bra.uni 	$L__BB4_47;
$L__BB4_12:
	mov.b64 	%rd93, %rd12;
	mov.b64 	%rd94, %rd13;
	mov.b32 	%r62, %r3;
	mov.b32 	%r63, %r2;
	mov.b64 	%rd95, %rd2;
	@%p29 bra 	$L__BB4_13;
	bra.uni 	$L__BB4_14;
$L__BB4_15:
	cvt.u32.u64 	%r49, %rd95;
	cvt.u32.u64 	%r50, %rd71;
	div.u32 	%r51, %r49, %r50;
	cvt.u64.u32 	%rd95, %r51;
	mul.lo.s32 	%r52, %r51, %r50;
	sub.s32 	%r53, %r49, %r52;
	cvt.u64.u32 	%rd97, %r53;
$L__BB4_20:
	ld.param.b64 	%rd76, [%rd14+72];
	mad.lo.s64 	%rd93, %rd76, %rd97, %rd93;
	ld.param.b64 	%rd77, [%rd14+80];
	mad.lo.s64 	%rd94, %rd77, %rd97, %rd94;
	add.s32 	%r63, %r63, -1;
	add.s32 	%r62, %r62, -3;
	setp.gt.u32 	%p32, %r63, 1;
	@%p32 bra 	$L__BB4_14;
	bra.uni 	$L__BB4_13;
$L__BB4_14:
	mul.wide.u32 	%rd70, %r62, 8;
	add.s64 	%rd14, %rd1, %rd70;
	ld.param.b64 	%rd71, [%rd14+64];
	max.s64 	%rd72, %rd95, %rd71;
	setp.gt.s64 	%p30, %rd72, 4294967295;
	@%p30 bra 	$L__BB4_16;
	bra.uni 	$L__BB4_15;
$L__BB4_16:
	or.b64 	%rd73, %rd95, %rd71;
	and.b64 	%rd74, %rd73, -4294967296;
	setp.ne.b64 	%p31, %rd74, 0;
	@%p31 bra 	$L__BB4_18;
	bra.uni 	$L__BB4_17;
$L__BB4_18:
	div.s64 	%rd96, %rd95, %rd71;
	bra.uni 	$L__BB4_19;
$L__BB4_17:
	cvt.u32.u64 	%r46, %rd71;
	cvt.u32.u64 	%r47, %rd95;
	div.u32 	%r48, %r47, %r46;
	cvt.u64.u32 	%rd96, %r48;
$L__BB4_19:
	mul.lo.s64 	%rd75, %rd96, %rd71;
	sub.s64 	%rd97, %rd95, %rd75;
	mov.b64 	%rd95, %rd96;
	bra.uni 	$L__BB4_20;
$L__BB4_32:
	setp.ge.s64 	%p16, %rd2, %rd11;
	@%p16 bra 	$L__BB4_47;
	ld.param.b32 	%r7, [%rd1+56];
	ld.param.b64 	%rd18, [%rd1+24];
	ld.param.b64 	%rd19, [%rd1+32];
	add.s32 	%r8, %r7, 1;
	mad.lo.s32 	%r9, %r7, 3, -3;
	setp.lt.s32 	%p17, %r7, 1;
	bra.uni 	$L__BB4_34;
$L__BB4_35:
	ld.b32 	%r37, [%rd104];
	st.b32 	[%rd103], %r37;
	add.s64 	%rd2, %rd2, %rd3;
	setp.lt.s64 	%p21, %rd2, %rd11;
	@%p21 bra 	$L__BB4_34;
	bra.uni 	$L__BB4_47;
$L__BB4_34:
	mov.b64 	%rd103, %rd18;
	mov.b64 	%rd104, %rd19;
	mov.b32 	%r66, %r9;
	mov.b32 	%r67, %r8;
	mov.b64 	%rd105, %rd2;
	@%p17 bra 	$L__BB4_35;
	bra.uni 	$L__BB4_36;
$L__BB4_37:
	cvt.u32.u64 	%r32, %rd105;
	cvt.u32.u64 	%r33, %rd55;
	div.u32 	%r34, %r32, %r33;
	cvt.u64.u32 	%rd105, %r34;
	mul.lo.s32 	%r35, %r34, %r33;
	sub.s32 	%r36, %r32, %r35;
	cvt.u64.u32 	%rd107, %r36;
$L__BB4_42:
	ld.param.b64 	%rd60, [%rd20+72];
	mad.lo.s64 	%rd103, %rd60, %rd107, %rd103;
	ld.param.b64 	%rd61, [%rd20+80];
	mad.lo.s64 	%rd104, %rd61, %rd107, %rd104;
	add.s32 	%r67, %r67, -1;
	add.s32 	%r66, %r66, -3;
	setp.gt.u32 	%p20, %r67, 1;
	@%p20 bra 	$L__BB4_36;
	bra.uni 	$L__BB4_35;
$L__BB4_36:
	mul.wide.u32 	%rd54, %r66, 8;
	add.s64 	%rd20, %rd1, %rd54;
	ld.param.b64 	%rd55, [%rd20+64];
	max.s64 	%rd56, %rd105, %rd55;
	setp.gt.s64 	%p18, %rd56, 4294967295;
	@%p18 bra 	$L__BB4_38;
	bra.uni 	$L__BB4_37;
$L__BB4_38:
	or.b64 	%rd57, %rd105, %rd55;
	and.b64 	%rd58, %rd57, -4294967296;
	setp.ne.b64 	%p19, %rd58, 0;
	@%p19 bra 	$L__BB4_40;
	bra.uni 	$L__BB4_39;
$L__BB4_40:
	div.s64 	%rd106, %rd105, %rd55;
	bra.uni 	$L__BB4_41;
$L__BB4_39:
	cvt.u32.u64 	%r29, %rd55;
	cvt.u32.u64 	%r30, %rd105;
	div.u32 	%r31, %r30, %r29;
	cvt.u64.u32 	%rd106, %r31;
$L__BB4_41:
	mul.lo.s64 	%rd59, %rd106, %rd55;
	sub.s64 	%rd107, %rd105, %rd59;
	mov.b64 	%rd105, %rd106;
	bra.uni 	$L__BB4_42;
$L__BB4_21:
	setp.ge.s64 	%p22, %rd2, %rd11;
	@%p22 bra 	$L__BB4_47;
	ld.param.b32 	%r4, [%rd1+56];
	ld.param.b64 	%rd15, [%rd1+24];
	ld.param.b64 	%rd16, [%rd1+32];
	add.s32 	%r5, %r4, 1;
	mad.lo.s32 	%r6, %r4, 3, -3;
	setp.lt.s32 	%p23, %r4, 1;
	bra.uni 	$L__BB4_23;
$L__BB4_24:
	ld.b16 	%rs1, [%rd99];
	st.b16 	[%rd98], %rs1;
	add.s64 	%rd2, %rd2, %rd3;
	setp.lt.s64 	%p27, %rd2, %rd11;
	@%p27 bra 	$L__BB4_23;
	bra.uni 	$L__BB4_47;
$L__BB4_23:
	mov.b64 	%rd98, %rd15;
	mov.b64 	%rd99, %rd16;
	mov.b32 	%r64, %r6;
	mov.b32 	%r65, %r5;
	mov.b64 	%rd100, %rd2;
	@%p23 bra 	$L__BB4_24;
	bra.uni 	$L__BB4_25;
$L__BB4_26:
	cvt.u32.u64 	%r41, %rd100;
	cvt.u32.u64 	%r42, %rd63;
	div.u32 	%r43, %r41, %r42;
	cvt.u64.u32 	%rd100, %r43;
	mul.lo.s32 	%r44, %r43, %r42;
	sub.s32 	%r45, %r41, %r44;
	cvt.u64.u32 	%rd102, %r45;
$L__BB4_31:
	ld.param.b64 	%rd68, [%rd17+72];
	mad.lo.s64 	%rd98, %rd68, %rd102, %rd98;
	ld.param.b64 	%rd69, [%rd17+80];
	mad.lo.s64 	%rd99, %rd69, %rd102, %rd99;
	add.s32 	%r65, %r65, -1;
	add.s32 	%r64, %r64, -3;
	setp.gt.u32 	%p26, %r65, 1;
	@%p26 bra 	$L__BB4_25;
	bra.uni 	$L__BB4_24;
$L__BB4_25:
	mul.wide.u32 	%rd62, %r64, 8;
	add.s64 	%rd17, %rd1, %rd62;
	ld.param.b64 	%rd63, [%rd17+64];
	max.s64 	%rd64, %rd100, %rd63;
	setp.gt.s64 	%p24, %rd64, 4294967295;
	@%p24 bra 	$L__BB4_27;
	bra.uni 	$L__BB4_26;
$L__BB4_27:
	or.b64 	%rd65, %rd100, %rd63;
	and.b64 	%rd66, %rd65, -4294967296;
	setp.ne.b64 	%p25, %rd66, 0;
	@%p25 bra 	$L__BB4_29;
	bra.uni 	$L__BB4_28;
$L__BB4_29:
	div.s64 	%rd101, %rd100, %rd63;
	bra.uni 	$L__BB4_30;
$L__BB4_28:
	cvt.u32.u64 	%r38, %rd63;
	cvt.u32.u64 	%r39, %rd100;
	div.u32 	%r40, %r39, %r38;
	cvt.u64.u32 	%rd101, %r40;
$L__BB4_30:
	mul.lo.s64 	%rd67, %rd101, %rd63;
	sub.s64 	%rd102, %rd100, %rd67;
	mov.b64 	%rd100, %rd101;
	bra.uni 	$L__BB4_31;
$L__BB4_43:
	setp.ge.s64 	%p10, %rd2, %rd11;
	@%p10 bra 	$L__BB4_47;
	ld.param.b32 	%r10, [%rd1+56];
	ld.param.b64 	%rd21, [%rd1+24];
	ld.param.b64 	%rd22, [%rd1+32];
	add.s32 	%r11, %r10, 1;
	mad.lo.s32 	%r12, %r10, 3, -3;
	setp.lt.s32 	%p11, %r10, 1;
	bra.uni 	$L__BB4_45;
$L__BB4_46:
	ld.b64 	%rd53, [%rd109];
	st.b64 	[%rd108], %rd53;
	add.s64 	%rd2, %rd2, %rd3;
	setp.lt.s64 	%p15, %rd2, %rd11;
	@%p15 bra 	$L__BB4_45;
	bra.uni 	$L__BB4_47;
$L__BB4_45:
	mov.b64 	%rd108, %rd21;
	mov.b64 	%rd109, %rd22;
	mov.b32 	%r68, %r12;
	mov.b32 	%r69, %r11;
	mov.b64 	%rd110, %rd2;
	@%p11 bra 	$L__BB4_46;
	bra.uni 	$L__BB4_48;
$L__BB4_49:
	cvt.u32.u64 	%r24, %rd110;
	cvt.u32.u64 	%r25, %rd46;
	div.u32 	%r26, %r24, %r25;
	cvt.u64.u32 	%rd110, %r26;
	mul.lo.s32 	%r27, %r26, %r25;
	sub.s32 	%r28, %r24, %r27;
	cvt.u64.u32 	%rd112, %r28;
$L__BB4_54:
	ld.param.b64 	%rd51, [%rd23+72];
	mad.lo.s64 	%rd108, %rd51, %rd112, %rd108;
	ld.param.b64 	%rd52, [%rd23+80];
	mad.lo.s64 	%rd109, %rd52, %rd112, %rd109;
	add.s32 	%r69, %r69, -1;
	add.s32 	%r68, %r68, -3;
	setp.gt.u32 	%p14, %r69, 1;
	@%p14 bra 	$L__BB4_48;
	bra.uni 	$L__BB4_46;
$L__BB4_48:
	mul.wide.u32 	%rd45, %r68, 8;
	add.s64 	%rd23, %rd1, %rd45;
	ld.param.b64 	%rd46, [%rd23+64];
	max.s64 	%rd47, %rd110, %rd46;
	setp.gt.s64 	%p12, %rd47, 4294967295;
	@%p12 bra 	$L__BB4_50;
	bra.uni 	$L__BB4_49;
$L__BB4_50:
	or.b64 	%rd48, %rd110, %rd46;
	and.b64 	%rd49, %rd48, -4294967296;
	setp.ne.b64 	%p13, %rd49, 0;
	@%p13 bra 	$L__BB4_52;
	bra.uni 	$L__BB4_51;
$L__BB4_52:
	div.s64 	%rd111, %rd110, %rd46;
	bra.uni 	$L__BB4_53;
$L__BB4_51:
	cvt.u32.u64 	%r21, %rd46;
	cvt.u32.u64 	%r22, %rd110;
	div.u32 	%r23, %r22, %r21;
	cvt.u64.u32 	%rd111, %r23;
$L__BB4_53:
	mul.lo.s64 	%rd50, %rd111, %rd46;
	sub.s64 	%rd112, %rd110, %rd50;
	mov.b64 	%rd110, %rd111;
	bra.uni 	$L__BB4_54;
$L__BB4_55:
	setp.ge.s64 	%p34, %rd2, %rd11;
	@%p34 bra 	$L__BB4_47;
	ld.param.b32 	%r13, [%rd1+56];
	ld.param.b64 	%rd24, [%rd1+24];
	ld.param.b64 	%rd25, [%rd1+32];
	add.s32 	%r14, %r13, 1;
	mad.lo.s32 	%r15, %r13, 3, -3;
	setp.lt.s32 	%p35, %r13, 1;
	bra.uni 	$L__BB4_57;
$L__BB4_58:
	ld.b64 	%rd86, [%rd114+8];
	st.b64 	[%rd113+8], %rd86;
	ld.b64 	%rd87, [%rd114];
	st.b64 	[%rd113], %rd87;
	add.s64 	%rd2, %rd2, %rd3;
	setp.lt.s64 	%p39, %rd2, %rd11;
	@%p39 bra 	$L__BB4_57;
	bra.uni 	$L__BB4_47;
$L__BB4_57:
	mov.b64 	%rd113, %rd24;
	mov.b64 	%rd114, %rd25;
	mov.b32 	%r70, %r15;
	mov.b32 	%r71, %r14;
	mov.b64 	%rd115, %rd2;
	@%p35 bra 	$L__BB4_58;
	bra.uni 	$L__BB4_59;
$L__BB4_60:
	cvt.u32.u64 	%r57, %rd115;
	cvt.u32.u64 	%r58, %rd79;
	div.u32 	%r59, %r57, %r58;
	cvt.u64.u32 	%rd115, %r59;
	mul.lo.s32 	%r60, %r59, %r58;
	sub.s32 	%r61, %r57, %r60;
	cvt.u64.u32 	%rd117, %r61;
$L__BB4_65:
	ld.param.b64 	%rd84, [%rd26+72];
	mad.lo.s64 	%rd113, %rd84, %rd117, %rd113;
	ld.param.b64 	%rd85, [%rd26+80];
	mad.lo.s64 	%rd114, %rd85, %rd117, %rd114;
	add.s32 	%r71, %r71, -1;
	add.s32 	%r70, %r70, -3;
	setp.gt.u32 	%p38, %r71, 1;
	@%p38 bra 	$L__BB4_59;
	bra.uni 	$L__BB4_58;
$L__BB4_59:
	mul.wide.u32 	%rd78, %r70, 8;
	add.s64 	%rd26, %rd1, %rd78;
	ld.param.b64 	%rd79, [%rd26+64];
	max.s64 	%rd80, %rd115, %rd79;
	setp.gt.s64 	%p36, %rd80, 4294967295;
	@%p36 bra 	$L__BB4_61;
	bra.uni 	$L__BB4_60;
$L__BB4_61:
	or.b64 	%rd81, %rd115, %rd79;
	and.b64 	%rd82, %rd81, -4294967296;
	setp.ne.b64 	%p37, %rd82, 0;
	@%p37 bra 	$L__BB4_63;
	bra.uni 	$L__BB4_62;
$L__BB4_63:
	div.s64 	%rd116, %rd115, %rd79;
	bra.uni 	$L__BB4_64;
$L__BB4_62:
	cvt.u32.u64 	%r54, %rd79;
	cvt.u32.u64 	%r55, %rd115;
	div.u32 	%r56, %r55, %r54;
	cvt.u64.u32 	%rd116, %r56;
$L__BB4_64:
	mul.lo.s64 	%rd83, %rd116, %rd79;
	sub.s64 	%rd117, %rd115, %rd83;
	mov.b64 	%rd115, %rd116;
	bra.uni 	$L__BB4_65;
$L__BB4_47:
	ret;
}
.visible .entry smelt_check_indices(
	.param .align 8 .b8 smelt_check_indices_param_0[184],
	.param .u64 smelt_check_indices_param_1,
	.param .u64 smelt_check_indices_param_2,
	.param .u64 .ptr .align 1 smelt_check_indices_param_3,
	.param .u64 .ptr .align 1 smelt_check_indices_param_4
)
{
	.reg .pred 	%p<45>;
	.reg .b16 	%rs<4>;
	.reg .b32 	%r<51>;
	.reg .b64 	%rd<91>;
	mov.b64 	%rd2, smelt_check_indices_param_0;
	ld.param.b64 	%rd30, [smelt_check_indices_param_3];
	cvta.to.global.u64 	%rd1, %rd30;
	mov.u32 	%r16, %ctaid.x;
	mov.u32 	%r17, %ntid.x;
	mul.wide.u32 	%rd31, %r16, %r17;
	mov.u32 	%r18, %tid.x;
	cvt.u64.u32 	%rd32, %r18;
	add.s64 	%rd3, %rd31, %rd32;
	mov.u32 	%r19, %nctaid.x;
	mul.wide.u32 	%rd4, %r19, %r17;
	ld.param.b64 	%rd29, [smelt_check_indices_param_0+8];
	setp.eq.b64 	%p1, %rd29, 4;
	@%p1 bra 	$L__BB5_34;
	setp.eq.b64 	%p2, %rd29, 2;
	@%p2 bra 	$L__BB5_24;
	setp.ne.b64 	%p3, %rd29, 1;
	@%p3 bra 	$L__BB5_45;
	ld.param.b64 	%rd49, [%rd2+16];
	setp.eq.b64 	%p20, %rd49, 0;
	ld.param.b64 	%rd5, [%rd2+24];
	@%p20 bra 	$L__BB5_14;
	setp.ge.s64 	%p21, %rd3, %rd5;
	@%p21 bra 	$L__BB5_40;
	ld.param.b64 	%rd6, [%rd2];
	ld.param.b32 	%r1, [%rd2+48];
	ld.param.b64 	%rd7, [%rd2+32];
	ld.param.b64 	%rd8, [%rd2+40];
	add.s32 	%r2, %r1, 1;
	shl.b32 	%r29, %r1, 1;
	add.s32 	%r3, %r29, -2;
	setp.gt.s32 	%p22, %r1, 0;
	bra.uni 	$L__BB5_6;
$L__BB5_9:
	add.s64 	%rd3, %rd3, %rd4;
	setp.lt.s64 	%p28, %rd3, %rd5;
	@%p28 bra 	$L__BB5_6;
	bra.uni 	$L__BB5_40;
$L__BB5_6:
	mov.b64 	%rd76, %rd6;
	mov.b32 	%r41, %r3;
	mov.b32 	%r42, %r2;
	mov.b64 	%rd77, %rd3;
	@%p22 bra 	$L__BB5_10;
$L__BB5_7:
	ld.b8 	%rs2, [%rd76];
	cvt.u64.u16 	%rd57, %rs2;
	cvt.s64.s8 	%rd58, %rd57;
	setp.le.s64 	%p25, %rd7, %rd58;
	setp.gt.s64 	%p26, %rd8, %rd58;
	and.pred 	%p27, %p25, %p26;
	@%p27 bra 	$L__BB5_9;
	st.global.b64 	[%rd1], 1;
	bra.uni 	$L__BB5_9;
$L__BB5_12:
	div.s64 	%rd78, %rd77, %rd51;
$L__BB5_13:
	mul.lo.s64 	%rd54, %rd78, %rd51;
	sub.s64 	%rd55, %rd77, %rd54;
	ld.param.b64 	%rd56, [%rd9+64];
	mad.lo.s64 	%rd76, %rd56, %rd55, %rd76;
	add.s32 	%r42, %r42, -1;
	add.s32 	%r41, %r41, -2;
	setp.gt.u32 	%p24, %r42, 1;
	mov.b64 	%rd77, %rd78;
	@%p24 bra 	$L__BB5_10;
	bra.uni 	$L__BB5_7;
$L__BB5_10:
	mul.wide.u32 	%rd50, %r41, 8;
	add.s64 	%rd9, %rd2, %rd50;
	ld.param.b64 	%rd51, [%rd9+56];
	or.b64 	%rd52, %rd77, %rd51;
	and.b64 	%rd53, %rd52, -4294967296;
	setp.ne.b64 	%p23, %rd53, 0;
	@%p23 bra 	$L__BB5_12;
	cvt.u32.u64 	%r30, %rd51;
	cvt.u32.u64 	%r31, %rd77;
	div.u32 	%r32, %r31, %r30;
	cvt.u64.u32 	%rd78, %r32;
	bra.uni 	$L__BB5_13;
$L__BB5_24:
	ld.param.b64 	%rd14, [%rd2+24];
	setp.ge.s64 	%p12, %rd3, %rd14;
	@%p12 bra 	$L__BB5_40;
	ld.param.b64 	%rd15, [%rd2];
	ld.param.b32 	%r7, [%rd2+48];
	ld.param.b64 	%rd16, [%rd2+32];
	ld.param.b64 	%rd17, [%rd2+40];
	add.s32 	%r8, %r7, 1;
	shl.b32 	%r25, %r7, 1;
	add.s32 	%r9, %r25, -2;
	setp.gt.s32 	%p13, %r7, 0;
	bra.uni 	$L__BB5_26;
$L__BB5_29:
	add.s64 	%rd3, %rd3, %rd4;
	setp.lt.s64 	%p19, %rd3, %rd14;
	@%p19 bra 	$L__BB5_26;
	bra.uni 	$L__BB5_40;
$L__BB5_26:
	mov.b64 	%rd82, %rd15;
	mov.b32 	%r45, %r9;
	mov.b32 	%r46, %r8;
	mov.b64 	%rd83, %rd3;
	@%p13 bra 	$L__BB5_30;
$L__BB5_27:
	ld.b16 	%rs1, [%rd82];
	cvt.s64.s16 	%rd48, %rs1;
	setp.le.s64 	%p16, %rd16, %rd48;
	setp.gt.s64 	%p17, %rd17, %rd48;
	and.pred 	%p18, %p16, %p17;
	@%p18 bra 	$L__BB5_29;
	st.global.b64 	[%rd1], 1;
	bra.uni 	$L__BB5_29;
$L__BB5_32:
	div.s64 	%rd84, %rd83, %rd42;
$L__BB5_33:
	mul.lo.s64 	%rd45, %rd84, %rd42;
	sub.s64 	%rd46, %rd83, %rd45;
	ld.param.b64 	%rd47, [%rd18+64];
	mad.lo.s64 	%rd82, %rd47, %rd46, %rd82;
	add.s32 	%r46, %r46, -1;
	add.s32 	%r45, %r45, -2;
	setp.gt.u32 	%p15, %r46, 1;
	mov.b64 	%rd83, %rd84;
	@%p15 bra 	$L__BB5_30;
	bra.uni 	$L__BB5_27;
$L__BB5_30:
	mul.wide.u32 	%rd41, %r45, 8;
	add.s64 	%rd18, %rd2, %rd41;
	ld.param.b64 	%rd42, [%rd18+56];
	or.b64 	%rd43, %rd83, %rd42;
	and.b64 	%rd44, %rd43, -4294967296;
	setp.ne.b64 	%p14, %rd44, 0;
	@%p14 bra 	$L__BB5_32;
	cvt.u32.u64 	%r26, %rd42;
	cvt.u32.u64 	%r27, %rd83;
	div.u32 	%r28, %r27, %r26;
	cvt.u64.u32 	%rd84, %r28;
	bra.uni 	$L__BB5_33;
$L__BB5_34:
	ld.param.b64 	%rd19, [%rd2+24];
	setp.ge.s64 	%p4, %rd3, %rd19;
	@%p4 bra 	$L__BB5_40;
	ld.param.b64 	%rd20, [%rd2];
	ld.param.b32 	%r10, [%rd2+48];
	ld.param.b64 	%rd21, [%rd2+32];
	ld.param.b64 	%rd22, [%rd2+40];
	add.s32 	%r11, %r10, 1;
	shl.b32 	%r20, %r10, 1;
	add.s32 	%r12, %r20, -2;
	setp.gt.s32 	%p5, %r10, 0;
	bra.uni 	$L__BB5_36;
$L__BB5_39:
	add.s64 	%rd3, %rd3, %rd4;
	setp.lt.s64 	%p11, %rd3, %rd19;
	@%p11 bra 	$L__BB5_36;
	bra.uni 	$L__BB5_40;
$L__BB5_36:
	mov.b64 	%rd85, %rd20;
	mov.b32 	%r47, %r12;
	mov.b32 	%r48, %r11;
	mov.b64 	%rd86, %rd3;
	@%p5 bra 	$L__BB5_41;
$L__BB5_37:
	ld.b32 	%r24, [%rd85];
	cvt.s64.s32 	%rd40, %r24;
	setp.le.s64 	%p8, %rd21, %rd40;
	setp.gt.s64 	%p9, %rd22, %rd40;
	and.pred 	%p10, %p8, %p9;
	@%p10 bra 	$L__BB5_39;
	st.global.b64 	[%rd1], 1;
	bra.uni 	$L__BB5_39;
$L__BB5_43:
	div.s64 	%rd87, %rd86, %rd34;
$L__BB5_44:
	mul.lo.s64 	%rd37, %rd87, %rd34;
	sub.s64 	%rd38, %rd86, %rd37;
	ld.param.b64 	%rd39, [%rd23+64];
	mad.lo.s64 	%rd85, %rd39, %rd38, %rd85;
	add.s32 	%r48, %r48, -1;
	add.s32 	%r47, %r47, -2;
	setp.gt.u32 	%p7, %r48, 1;
	mov.b64 	%rd86, %rd87;
	@%p7 bra 	$L__BB5_41;
	bra.uni 	$L__BB5_37;
$L__BB5_41:
	mul.wide.u32 	%rd33, %r47, 8;
	add.s64 	%rd23, %rd2, %rd33;
	ld.param.b64 	%rd34, [%rd23+56];
	or.b64 	%rd35, %rd86, %rd34;
	and.b64 	%rd36, %rd35, -4294967296;
	setp.ne.b64 	%p6, %rd36, 0;
	@%p6 bra 	$L__BB5_43;
	cvt.u32.u64 	%r21, %rd34;
	cvt.u32.u64 	%r22, %rd86;
	div.u32 	%r23, %r22, %r21;
	cvt.u64.u32 	%rd87, %r23;
	bra.uni 	$L__BB5_44;
$L__BB5_45:
	ld.param.b64 	%rd24, [%rd2+24];
	setp.ge.s64 	%p37, %rd3, %rd24;
	@%p37 bra 	$L__BB5_40;
	ld.param.b64 	%rd25, [%rd2];
	ld.param.b32 	%r13, [%rd2+48];
	ld.param.b64 	%rd26, [%rd2+32];
	ld.param.b64 	%rd27, [%rd2+40];
	add.s32 	%r14, %r13, 1;
	shl.b32 	%r37, %r13, 1;
	add.s32 	%r15, %r37, -2;
	setp.gt.s32 	%p38, %r13, 0;
	bra.uni 	$L__BB5_47;
$L__BB5_50:
	add.s64 	%rd3, %rd3, %rd4;
	setp.lt.s64 	%p44, %rd3, %rd24;
	@%p44 bra 	$L__BB5_47;
	bra.uni 	$L__BB5_40;
$L__BB5_47:
	mov.b64 	%rd88, %rd25;
	mov.b32 	%r49, %r15;
	mov.b32 	%r50, %r14;
	mov.b64 	%rd89, %rd3;
	@%p38 bra 	$L__BB5_51;
$L__BB5_48:
	ld.b64 	%rd75, [%rd88];
	setp.ge.s64 	%p41, %rd75, %rd26;
	setp.lt.s64 	%p42, %rd75, %rd27;
	and.pred 	%p43, %p41, %p42;
	@%p43 bra 	$L__BB5_50;
	st.global.b64 	[%rd1], 1;
	bra.uni 	$L__BB5_50;
$L__BB5_52:
	cvt.u32.u64 	%r38, %rd69;
	cvt.u32.u64 	%r39, %rd89;
	div.u32 	%r40, %r39, %r38;
	cvt.u64.u32 	%rd90, %r40;
$L__BB5_54:
	mul.lo.s64 	%rd72, %rd90, %rd69;
	sub.s64 	%rd73, %rd89, %rd72;
	ld.param.b64 	%rd74, [%rd28+64];
	mad.lo.s64 	%rd88, %rd74, %rd73, %rd88;
	add.s32 	%r50, %r50, -1;
	add.s32 	%r49, %r49, -2;
	setp.gt.u32 	%p40, %r50, 1;
	mov.b64 	%rd89, %rd90;
	@%p40 bra 	$L__BB5_51;
	bra.uni 	$L__BB5_48;
$L__BB5_51:
	mul.wide.u32 	%rd68, %r49, 8;
	add.s64 	%rd28, %rd2, %rd68;
	ld.param.b64 	%rd69, [%rd28+56];
	or.b64 	%rd70, %rd89, %rd69;
	and.b64 	%rd71, %rd70, -4294967296;
	setp.ne.b64 	%p39, %rd71, 0;
	@%p39 bra 	$L__BB5_53;
	bra.uni 	$L__BB5_52;
$L__BB5_53:
	div.s64 	%rd90, %rd89, %rd69;
	bra.uni 	$L__BB5_54;
$L__BB5_14:
	setp.ge.s64 	%p29, %rd3, %rd5;
	@%p29 bra 	$L__BB5_40;
	ld.param.b64 	%rd10, [%rd2];
	ld.param.b32 	%r4, [%rd2+48];
	ld.param.b64 	%rd11, [%rd2+32];
	ld.param.b64 	%rd12, [%rd2+40];
	add.s32 	%r5, %r4, 1;
	shl.b32 	%r33, %r4, 1;
	add.s32 	%r6, %r33, -2;
	setp.gt.s32 	%p30, %r4, 0;
	bra.uni 	$L__BB5_16;
$L__BB5_19:
	add.s64 	%rd3, %rd3, %rd4;
	setp.lt.s64 	%p36, %rd3, %rd5;
	@%p36 bra 	$L__BB5_16;
	bra.uni 	$L__BB5_40;
$L__BB5_16:
	mov.b64 	%rd79, %rd10;
	mov.b32 	%r43, %r6;
	mov.b32 	%r44, %r5;
	mov.b64 	%rd80, %rd3;
	@%p30 bra 	$L__BB5_20;
$L__BB5_17:
	ld.b8 	%rs3, [%rd79];
	cvt.u64.u16 	%rd66, %rs3;
	and.b64 	%rd67, %rd66, 255;
	setp.le.s64 	%p33, %rd11, %rd67;
	setp.gt.s64 	%p34, %rd12, %rd67;
	and.pred 	%p35, %p33, %p34;
	@%p35 bra 	$L__BB5_19;
	st.global.b64 	[%rd1], 1;
	bra.uni 	$L__BB5_19;
$L__BB5_22:
	div.s64 	%rd81, %rd80, %rd60;
$L__BB5_23:
	mul.lo.s64 	%rd63, %rd81, %rd60;
	sub.s64 	%rd64, %rd80, %rd63;
	ld.param.b64 	%rd65, [%rd13+64];
	mad.lo.s64 	%rd79, %rd65, %rd64, %rd79;
	add.s32 	%r44, %r44, -1;
	add.s32 	%r43, %r43, -2;
	setp.gt.u32 	%p32, %r44, 1;
	mov.b64 	%rd80, %rd81;
	@%p32 bra 	$L__BB5_20;
	bra.uni 	$L__BB5_17;
$L__BB5_20:
	mul.wide.u32 	%rd59, %r43, 8;
	add.s64 	%rd13, %rd2, %rd59;
	ld.param.b64 	%rd60, [%rd13+56];
	or.b64 	%rd61, %rd80, %rd60;
	and.b64 	%rd62, %rd61, -4294967296;
	setp.ne.b64 	%p31, %rd62, 0;
	@%p31 bra 	$L__BB5_22;
	cvt.u32.u64 	%r34, %rd60;
	cvt.u32.u64 	%r35, %rd80;
	div.u32 	%r36, %r35, %r34;
	cvt.u64.u32 	%rd81, %r36;
	bra.uni 	$L__BB5_23;
$L__BB5_40:
	ret;
}
)ptx";
// clang-format on

}  // namespace smelt::cuda::functions

#endif  // SMELT_RUNTIME_CUDA_FUNCTIONS_FUNCTIONS_PTX_H_
