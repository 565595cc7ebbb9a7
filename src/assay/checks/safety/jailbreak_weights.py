"""The weights of `jailbreak_features`, which `tests/support/jailbreak_training.py` wrote. Do not edit them by hand."""

from base64 import b85decode
from functools import cache
from typing import Final

GRAM_STEP: Final = 0.01
SAMPLES: Final = "0b7a60908423ba59"  # the digest of the samples
WEIGHTS: Final[dict[str, float]] = {
    "bias": -1.44,
    "r_harm": -0.24,
    "r_harm_benign": -0.83,
    "r_frame": -0.51,
    "r_conceal": 0.29,
    "r_deceive": 0.15,
    "r_pass": 0.18,
    "r_lawless": 0.07,
    "r_protect": -0.1,
    "r_crime": -0.18,
    "r_person": 0.38,
    "r_knowledge": -0.76,
    "r_how": -0.18,
    "r_write": 0.36,
    "r_fiction": -0.17,
    "r_own": -0.12,
    "r_any": -0.07,
    "r_ask": 0.34,
    "r_soft": 0.38,
    "a_share": 0.27,
    "a_elsewhere": -0.39,
    "a_assent": 0.31,
    "a_steps": 0.31,
    "a_code": 0.17,
    "a_orders": 0.38,
    "a_clauses": 0.27,
    "a_draft": 0.34,
    "a_quoted": 0.21,
    "a_persona": 0.21,
    "a_warning": -0.98,
    "a_help": -0.61,
    "a_ill": 0.6,
    "a_conceal": 0.4,
    "a_deceive": 0.29,
    "a_pass": 0.22,
    "a_report": 0.08,
    "a_harm": 0.17,
    "a_stance": -0.3,
    "a_assistant": -0.36,
    "a_question": -0.27,
    "a_mixed": -0.45,
    "x_instructs": 0.71,
    "x_unguarded": 0.87,
    "x_rules": 1.21,
}
_GRAMS: Final = (
    "Z-9ztgo1o{fqr>|f{B5Gii>rCg^hoOfq#34c8Gb0eu8;|d3bY^dWnF6dy9&Ue|3X_f^=+ygMy2NfQEN<f`fgBeRpnqe~Nf|h"
    "J$)|iH(ARfpUL=erAY$c6oq%fQo*7e0_Uug?EH~hkt*Dh=YEIdvS$ed4_?7fqaXAfqr#?fQEZ?kAQrIewcxOY=(e&ig|)~fp"
    "dR`fOdg`bbW$wi;aJJe~5u|dwGU~d4zt2gMo^Bje>`UgM)g7bbpC?e{Ow*frWy9hLVbhgMWm4euRO5e0*<$et(L9k$`@Fhj)"
    "vQetLp`fNO_`f`oj1dy$KQfQEyEbb5hsc7cR}euQ~_hKz}QbbEe%etU+8g^PiKb%=v`e1(CDgo%EGjdFyBhkt#8ba8=yb&G;"
    "^fP;gHhk}50f_r{^dU=F^f^vI-cYuJ0eu#pHhKqiPb#{l8gNuTLaEOY2gL`~_p@V{afrEgDe1?2>e}068bb^4ChJl2Letn2`"
    "dwh9^fp~U@d46w#b#Qr$b%uI%g?)o&d3k}0e}IR4gn@p5g^7HEg?)j5hk}8WbAEw`g?Nd4eu9aKiGYEEcYuO^dVq*|c!Gd|h"
    "<1c}e2IdLhjo94fq;C4Vu6i<eu;I7eQ0-mbc2MEhKGKPdyIs7c!q$5e}H#<c7SbpdxD3EZheY<e0^Spj(~%Ma(8upgn@v0g?"
    "WO8hKh89e{zF&hk}KBbbW$(jeLQJe1?C1dw!6Vk$ir1iiCiFhkb&5e1dI&g>Hp@gn(><a(#V?e}-{^e|?RKj(>oEd60gDc#?"
    "UHfQ5;BkAQV~es_C)dxCXzd5DO9f`5F4f^Uj~hkt>8f_;yMf{%rQgllw#jD(AWdwqL_d3%9^hJAs8fq#LAfP#04ig|yCiHm="
    "4Z+?7)d4Ym`b%lMDeT;F3jEH-Hf`*QMgNKHKiI#(nf|6i*e1LR+e|V3Hfq{gaeSw94fPZ&<c6NS)cZ+t0e2aj9lZk_ScYu<F"
    "gNb{6dX9H|gn@*9hJKNbe0_m_gNl8Ce}Q;xe0+h0h<bs2d5L{~h=hKHg?D&^jfIeOf`NpBfPQ(8fp&j@frfE)h=_@Idwp$ud"
    "wzp{hI@U0c7KI{hjxH?fqZU*dxd?0frONkg@%fRkbQ!Sh=YfEi-UQ9etmp)hkA>Qi;aPffP{5|igbaBg@uBIhKPQ5cy@e)k%"
    "ftSeT95{g@cEKd3S+-kBe=AfrWa8eSvs|bAy13gm`&+f`5X3f`4;%g@b~Cb%KF*b98uth;n;<d3}D6g@Al~rh0gTfsb*4bb^"
    "U+kA8lDfrET|gm!~?eR_6$fPs90iGhMxnSpb2aDj`9frWE_e|mg@f`e>{f`^Tae~5B*iGqfEfPkHcg@=QBgnfd4f^mh0m2ZK"
    "GdUSz<dWeOGeszd`k%)kaf`f^Eet39<e1Lg`d1HZ#iGYrOhj@IMfr5gCe}{a2fryQPf`NX4kb;4OdU=J8Y=d!leT#2_j(&ra"
    "e|Ls|dy0a3gok8!g^GV|fq#UJbBB9@hKF^5b%0}Vf`Ea7iGF&4e|~*`eui#`hkAgKqj!gSf_!_2jE8uAbbf_}fpdX;fs25Bk"
    "Ai)JfOms~Z-#q<eua&WdwzU=g@c8AgpPlLf`WC1kAZ`Fe}9sHiFbc_e13a^c!YL?hlGxRhK7HMgMWj4j)!}IdTNM(g^PHSkA"
    "i@3eR6h!d4hz2hlqxKg?V^_WP^Z#fPjI7dU1k?ihqQOiF%28eSM2{dVGg^dXRX4k%)YNgoJ^FgK~v}a*Bb5f_{O2f`fF9igb"
    "v1e0+k4gnxK{go=oJgoJ)^dw`3Bg@k{Hg?@vHeS>*|i+6^3d4Pd;hJSQ{kAQQGe|mY3g?@j3iim-YiD_<edwqe8lZSVPd69I"
    "4d3Jt+f^~ymc!PtFeRF+&d3<|_fp&m|f_I66gouTNf`x{FfOCb6evf>BeuaL1dw_$3fN^n#eusj7iiL)Pd4+w1bBK+BesX|{"
    "fq#R7g_MDNh<=1{Z-t46e|vLwdVOwygnyEJe{^?*fP1NkhJ1a4f_Hh0jDUc7dUtw=bAf`0gn)>CdwqU_e}{;8jevoThI@#8e"
    "~Ev7Z-RGzh<=89ZiIb*g@}HIgMxm3c7BY4hk|>DfsB2Lf_jN=goTNAb9IAzgp7WCg^zTDfq;O5kAr}PdvS-1g@t&3hIDUxi+"
    "q8Be|(K~e3O5LZheG#dXjs6dV`00gnxp0dwrLAeS(LLh=6>JhJ%8HhJ=NUf`)y2d4hO(lYMxKe|mL)g@1^NadwS?hjN90eSU"
    "p=ihq2Da(aVxjDdfLh=PKNbbNz<i-mb+kb`!BZiIAxgo=WThIx>6e0qd|iGO!|eTIU8hkJm4hJ%QGj){GNg@A*HhlYTId4Yz"
    "1f`o!{hIW5~gMosEi*S2_e}7bjmUDo4e1m|2Z*+WxdT@VncX@<-f_Qy>cYS_=j)He`laPOffPjRBdWnUHh<}59gnxs9fQ5s4"
    "fro^Qgo<%|gnxK*ZFqBfaDj!0m4AYQihzD~hIDm-dw_?Fg@t;7f`4>|f`WH^gK3F-go%8Cfpvy~hlquKeTRQ>gnyESa(jY@e"
    "}HX+hIM(1euagCgol5DcZq{_j)H-CeuR2~e}QCui;IqgfPjN`eSL<3jb(R*iHClHdxVUIet3d;k$;GMfrg2OjedrJdVPm{fr"
    "58?i-LZDf_;UDetLp+dwYI@e2RR6fP{d1i+_EBhmC@IiGiAYfq{aAbz^megob;8cz=q0X^nz|iiB>1jDU8Eeu06Bc!`64hk<"
    "yCfq;X5g~NY@eSU#=d4PI`eTja7e|LU$fqsK}hk$^FiF$p2h=O^4iiUB5kBxC}eT#&9e|dqAdx~~~f_iy^hkuQPe200Bk%XC"
    "gc71<%Zhw7veSd#!aFL9HfP{B_c6NG!jE04JgMxW?dxwIBi-UrDe~NvHj(duGiJE(ah=ziJf_8&#c87<6gMx&Ffs2E)iff2>"
    "cz}X;h=zV?gnWgMfq{#Ec7B3`gOP)Gfo+0;eRP0_c7c73gNt~HhKGcOf`y5Ehk$^9hJb#4fQFEMc7Bq8e0hk0e1?E|jDLKIf"
    "r){9fQ^NAZGV1=hI)5~dVpw#jfI7Ze~NjBih_NIgnM{?hk%8Cf`WyEiF%5MfqI36ii3oNg@kx}fpK_zgNu2Hd4hF*g@J;UgN"
    "}cGfPjF2m4b_Tgm!m&bcBPCb$)|^e~^NJgM@{5e29vHg^Y-Tje~-PfOL6^fs22Uii&@EhJAT;d4h#qgN1{Gi*<a0fqrsxfP8"
    "_2hkA5@d3=V8gm{62e1Uy~hK7cNeT8^^gm#CBdVqm?h=+!OfqQ~+gN1*7iG_fHfPH?0dxv^+fsB5Me}j61hLU)Kd~k$ohJA^"
    "7hG%q+esO+)g?)f~dwzX|c8Yp<fQx^Ago1;5af*L~c8PR-jAnd=kB5hWeS3I(i-2%^e0XDcgNA%%hLU!FiG+lDe}934etLd`"
    "hI@o>f`NgAdTD}%jfH=Ngn569h<}NOdVq+8f`5f`hl7NJgMovAa(jS)etvj-fqrv?eSC#`iHVShfQo>ChmDnlbcv3BiFbc}h"
    "KYlLdxd><fP{aEiG+fFf_!~~bajG)c7BI~gMWU6cz1_=fr)#JbBKw8h<|*BZgX&VSbTebgp+-TfqQv}i-?ATkcWhXfPjpDfq"
    "Z*#ft-VdeSwIBfrf^EhKGNYh=7NCc!+g=e|>(2eujX9c!q+4cZ7y}iiLiCdW&{@m1T;Ei-dW8g^7lIeSLt0f_sg7dyIU3d4Y"
    "R=cY=R^fPQ^{Z+?Y;gN1v5f_sX8iFlHNbbfe$go}HLfP!^^eu!6so_v6Rgn^5JfQX2AhJJf_dwqw8gMfi>go1p6e}sN~g@S&"
    "7gMfs4f{1*FgM5XFjC*^1fq8;}gMWU5bbN)Agn@~Di+y~6e}sW|ba{q;f`xp4jd6y5czb<=eua97e0F+%cX@hriidi1fP{*N"
    "frovAf`5vIjfjAPfrN~MdVhn3f_#yCgok^6gNccOf`M#-gNliDfpLg?f{TEIg@=EHZhne?i-d!QgLI3Tet?L8gNJ{6gn@pDh"
    "JA#LYl?}7dVhq5dyam1a(sS)fPjIEfOc_jj*panbcbSmfO&t5es+g}dwY9rgn@yJfqjU0i-laAZi<tGb%KhHe1U*(d4Yp@eS"
    "v|5a(;S(e|~g@gMor{dWw{Vgm{UAeur|2cYk(ye}Q3sn1Fh0eT9aDe{zU>etL3sf{Ac|jCh2Fm5zpqf_;U5hIoIEk7;&(hn0"
    "kPeS>+1gNT8NiF$g1gob;3e|dg|dU}R^fQEjAcUpFYh=hNKh?9SbgN1^9fQNmNczKP1gMoK|jfH=Rh<|r{et&&_d3uR?g@Sy"
    "1f`)Q^frEyEhK6^6fQEsAfr)g7cZ`38e29pGc#wpKdvkkzg@ts2goA^FdwYY1fPRC3h<$;8d3k_=cX)$^fP06Afr)i^frEs4"
    "b$E|`ZGV7`fP{#HfP-~}f`5I0d4+p`g@AOTkdK3YiG*{Zb$^0*fPQv`fPad8eSC|8gK>s_dv1P)e2a&Lf`);JfPR8}dw_?4d"
    "w-aLgn)*AgL#F6dvJ|$c!Ye2eRzU?g^h%Ej&_KDfP{vBeu|5Ue1U~_fQ5X5e|?01b%ch9gNJs8c#dX>fOm+1fPR98eS(USeS"
    "M8|gMx#7k%*3ogok{6cY%0<fPr{~hKz%Ph<b&8f_j5@k9l;4dV7a=etUt9euajDf_-{}eusp5h<=5IiEDy}e|~_4afWw*M~{"
    "Ync5!-ud4G<4f`D|1fPr{;fqjXEhJBcUgn)>8hmnMOd3t(yfPRF7e}8{~eT0F7etmR$fOLI=dwzF<e1DF3fsKNIgN}TJg^!D"
    "edwhL=bCH09etm~|d47e6nS*_fW{ZP_h=G2Kc7un7jCzQ1c!P(HhKGE7iiC@HjeCWKdUTC>gMo~Zi-3oNgM5N>c#n95j(>-U"
    "iGYiHf`D^>hJJ5tg?oX7e1wgNg^GNOiid)Sj(Ur2d3l6@m4|tBf`NmEf`NB%cZ7wCgNlfbet(L8j*x(ed5MmHeR+P2hlYuad"
    "xDONihF^Hf_;B?dwqv{e1>{=d5eC0f_;LBiGhWFdVPg`cXob&ihh23ONfVjab<aZe1wUIhkSv3d})Gxe1Ud?VuOHxgob>Mf`"
    "yBOaD;Mla)5$?gn)gDdw6n<f`f;JdW~~{fOdkDeUF8PlaPOidv%9_etUj>jE9YAdxwdEjCzH5b$)YphI)U8h<b>Gfr5{HgMy"
    "5Sd4_|RdxL^~f_HtBaD#$~nuvIUeSm*<"
)


@cache
def gram_weights() -> tuple[int, ...]:
    """The weights of the buckets, in units of GRAM_STEP."""
    return tuple(byte - 128 for byte in b85decode(_GRAMS))
