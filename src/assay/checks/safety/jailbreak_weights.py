"""The weights of `jailbreak_features`, which `tests/support/jailbreak_training.py` wrote. Do not edit them by hand."""

from base64 import b85decode
from functools import cache
from typing import Final

GRAM_STEP: Final = 0.01
WEIGHTS: Final[dict[str, float]] = {
    "bias": -1.36,
    "r_harm": -0.05,
    "r_harm_benign": -0.8,
    "r_frame": -0.23,
    "r_conceal": 0.24,
    "r_deceive": 0.18,
    "r_pass": -0.02,
    "r_lawless": 0.06,
    "r_protect": -0.26,
    "r_crime": -0.05,
    "r_person": 0.37,
    "r_knowledge": -0.9,
    "r_how": -0.06,
    "r_write": 0.28,
    "r_fiction": -0.17,
    "r_own": -0.18,
    "r_any": -0.03,
    "r_ask": 0.41,
    "r_soft": 0.51,
    "a_share": 0.26,
    "a_assent": 0.11,
    "a_steps": 0.3,
    "a_code": 0.08,
    "a_orders": 0.37,
    "a_clauses": 0.3,
    "a_draft": 0.3,
    "a_quoted": 0.36,
    "a_persona": 0.2,
    "a_warning": -0.94,
    "a_help": -0.53,
    "a_ill": 0.76,
    "a_conceal": 0.43,
    "a_deceive": 0.23,
    "a_pass": 0.4,
    "a_report": 0.15,
    "a_harm": 0.34,
    "a_stance": -0.31,
    "a_assistant": -0.49,
    "a_question": -0.33,
    "a_mixed": -0.46,
    "x_instructs": 0.68,
    "x_unguarded": 0.91,
    "x_rules": 1.28,
}
_GRAMS: Final = (
    "d4Z2-frWT~d53+7f{lEGi;Q!Ig^z%Se}905dWd#~e};B}c6oS`dw+m^dz6KagLZ>|dv9!mhJuWReTjE*hKGNKd~<AmfQf5;i"
    "gkK=hlhfHf^d6)f^Um_b$ft(h>U=3eu9B$g@1yAjeLEDhKPNLdvt?OdWeC6fq#vGhK6r~fQEZ=j(~lIgqMJSZH0(+g@1s2e|"
    "vs}es+3=dv<(xjE#VCfQEl@e0YU{dVzk2f`gBGjDv%Tf`WU5a(;<;d~tk$frf;6hmM?sj(vfAe1n95dV6z-f_{RElYxSPiFk"
    "&aes+a`gK&n2fP#B=bB>LNfQf~KeR+O&dV++2gMxK?evX59c7=j_cYTM2g@=lGaEX6;c!+t2iHw1OjdX>8i-CfDcyoS&cYuC"
    "#b%TL}hJt{9fq8d;dV+#}gmHL+d3}S3eu{^HhKzuRd3S`6fQ*BHbBc?9fq{B`mxG0dhk}8Ic!PIwcz%U~cY=S8gMx#Ie0qs_"
    "cYA+}g@1I6dw6bucWi=-bA)??kAHt}czS||e}RU6g?@s8g^hfEhkJm7h<SmNdVYa~gmsC1e20CCi*|s5b9jS(e}Rj6b%lq3h"
    "J%WEd5C|EiF<s5etmg`WqgT(caD02eQ0-mc7K18h=qWOgpq%Bc!z#~fqr;@cz<$&eR+<DZF7r!e|=qnj)Q`Tba;1xfqjE|fq"
    "R3Bf`oyEeQktqgo1{8ZhU}njDdiFf{KiHfqjvdo`ZaLi-LlEhJ1Q|eSmR;fop+#e1dC$d3b$@e1&v|fPsj9jeC21fRKKIgqV"
    "Gjh=7WHk%D)3c6xq(e0_Rye1?>Kdwh6`gL8~~gn)s5czuL^fsTcOdTeinmX3;pe0_m~dwPI^f_{R0hJby7dx39<jChBGiid!"
    "2aCdrvdxU>}e}{LIdx>+0k%xMKfP|5MfP063f1H7geUWH-e|~g?e{q$6fOmzRd2@z)eSmj+d3Aq)bBTS1c!`63jDm!Nb%2e8"
    "eS>#^eTi><i-3rJg?NpIdwPO?h>3)IdxUs=dxd+3g?WF3fsKWJhJ1RBg>!X*h=Pl4fPRIAf`NaBg?NB~fr4psh=qrEg@0*-b"
    "A^L`f_i&?c7B3>h<AH*dxCd{goSi{f`X5af{BcSmwk(ahlPfGeSmp>e1&~=jCY8PhKzuZet>j>gmiv~gN22KgN%W7dv1Pyk%"
    "x<Ye28{@goS~Fe0_y}kd|e7g@bf}eu8(8cz%I~iFtr{gMfm3fOvCwhJ%NHe}RK|b#r%tkb8Q5eSUnBgL{5_r+9UKfsu8Ceu0"
    "8;k$ruHfPs8_e{_O&e|ma&dx&{`ih_Vtoqu(CbAgM9f{uNCb$xn&goAI1hJ}=lij8w~ihqWOdxM*Zd4_|0hIxX8eSV3Fnr?!"
    "IcyfV*ev5*KfOv#^i-v%Vf_{d6hj@E{d4YF<b8vl&k9d-Yg>-wEe1eCDe}{K_euR;NfPjgDl8S|efO&j~bA)quhKYTDf_{R8"
    "e|m*}cZGa-fQDaqhJ=N0f_s68bclq1f`oO1b%0iJeSm?1h<kT|dxd{{euQ+2ihYHQrgw&Ncy@h<g@t!|e|d<8gLQy^e~o~3g"
    "@t~Bc5;S-aD#h_c!Z6SeTRI2gM@{Bg^7lRgnx8{kbHx8fP#d5iFSN@dxC?7bAfe*go%rQjDUZKg@A&1iidxKd~An#evEgLi-"
    ">`Ie|C6(cz}m~h=_-JjCpx}Y=nw~fqQ^`due}&ihYHPhk1v4e|(2@f_#U3g^GTFj);7Lg@}5Ggn5O6ag2n7hktf_ihyv9igS"
    "s5cYcG0hk$s2e~pBIk%f74dwzz4g@k{Hhk$~KeuZ;?gnx*4e13p>iG+KDje&QCdx3k3f_r~{iinAgidb-Peu9FDm4<hNgoSm"
    "5bbEb-e{X+kY=()Cc6)++e0h6@fqR2~h<cHIgnxyEdw_?6foz11evE{De3yZHe}sF4e|&U>fQ*5Gj)8`Pb%T6{a)^?LesX+>"
    "et?9Ag^_%Iihq7^YloARe|>gue0F$#fq;>KfOm0#fPATjgn)c|d}@D*iGYH5cy)b(Zh?J+gMyHLdwzk0cZ!5?hk%5Qhkl5Df"
    "{1{DZGvfji+zTAd4+?6go$~EfP#Q|c72k5hkk#9f{l2Kg?fQ-gM^BBaC?G*g@}7}g^X-|eS(C7goS{Gg>s0EhK7B6g?DIoi+"
    "zKLfq;d3eVBlQczcC}dy92{e2Id2g?D^<a)6Y0fr^BRh=O~JeuRC7frNmGfr)l}c!YX+m3V-Od~<t%hkccba(9J)i*$p2dVh"
    "p_i-LE7Yj%Wok%5GThk}EEa)5z<h=z7!lz)MIZi9G(fQf{Fg?E*7hjV^_j(>A>eTRd9h<Sj5kcNYKk%@YOg@J&GfrxyBeT0F"
    "BeT9T@h<JH@h<<>5hje;_fPYDZk#&G{dxv^}aeIP)aCL-rb9aMwgL!#>c6EMtk%4!3n2>>keSwC8d4_$4iGO~4cYl6?eS?I3"
    "hlGWWg_(YNhlqA=X?${fXMTQ(mwtqQiF|;3hI4g&e1M0GgNb*Fe|>m_fr4^-d2x_^kconXhjoI5i-?1Rd5eK{f`fU9eRzL<e"
    "t>X=dvtq>et(91gNKHKe}jN^ig<&1froT@c6)4xk%o$cfO~~?e{P0;glKh!iH3ZBe1?pPfPaF0hJS~Af{BWRiGG8AdVqy}d4"
    "qX&hk|&2gnWgDi+6%<e}a93fQEI1fQXEJh=YE7hK7N7i++!QeSUn1ZC7)JgNl26c7K9=ZIOh9hm&xCkAQcDcYuV1e~OKKhKG"
    "5Ehkt~Cg|Lc)eSv;{cYb?@b&Gs|hIWN>fPRK{h=YTFgL!;_i-3K8jDT>1j*W3&f{lWGesg?^eS~L%fqQs^gn*EJdWv|9iHDe"
    "Uc6@qwaD#kxdVhR&eUgTMe}sH`c6@+<kb#GSg@Jl_dWeFCjfR7Mi-CWNigt#1k(PUdjC_KDgm!{=d4Gj~hJ%HNfrxpYk!y@|"
    "cz}L*fq;Evhk<~TfrE#7c7A??golH2fpdd?es_I=b%K10e};L5hKPlNfPag7g@A&Chk$>8eu9mAbA69}fqH|0eT9E@hk1L1g"
    "NlcQfRTZ9bAN!2h<|m0f`4L$j)8@SfQfm1iH3BMhJ$#3j(>=He|vs~jDd`afp~(0iGYEGhKGH9f_r&@jD&WGdVqF-hk$yMhl"
    "_lFfPsd7j(>!Egm!~{b$)}AdU}0+e}aR9e};>GdW?>NhmMGOje>%Me{Xq?cYk)0e~f{5jDm%DcYcIbfP;X1i*<p7e1CLyeSn"
    "34iF<E^e0+$Be{+F<eSU?1hJA;Agn@K_hjxpBe}9F1gouTLeTjc|iGO;1h>3%Gd3}X~dy9s1f{1;Ig@SvBgo<#2f^CFyf`x~"
    "3g=BM%d~kn(ihF^3e}994b&Pq1hl+Z8g@J^9ZG?M&a)x|?g=KY#h=YfReSLX+i+yT$dw^wmfrEK&hLC`Ognoy5fPjO8et&(A"
    "hJt->euaXBhG>I?iiCcIfqj09i-CxYc71$>hJ%K9hkJs8f`W#AZ*qW%eSdv@fPZ&@fO(06b%cnBeu;pBg^`tjbclw1igA5^g"
    "NlTJeT0E`eS&$1gM@*3gm{a5Z*+-$bbpAAgM5C5d3%X|hK_cNb%%+8iGP2HZE|XYOL}*Hf{=fOe|mg{gp7uTkb;VYfPjpFfr"
    "5o>fS`SVdVqp{eu#;Ihk<>Qfq{f~c8Pd?etv(1g@$~8b%uU|hJ%28jE9ARd5w2`murZMiiCc9iHV1ReR70?e|ds?eTRC3dV+"
    "a<bAy0@fO&guf_H>~hl7BDhkS~Eh;@#Kczk$&i-~)Ket~p=fP71UntX(JhJlE6f`@)~g?@v3e|(39g@1W*gMfU5fQ@>5g@l2"
    "7f`EpAgob;BfPaUGj(Bl=fp3F=frNg8e|d+Sgo22Bk$ZoFeusc~a&U)!e1Ly_kZ*y4fscNLdW3m`d4zy@ba;Pwh=_i7euajJ"
    "gNJ>DgN2ELii?MTe}j&AdxwIAfPIdDgoS{6gNulRgMDj&ev65Af^mj`dWn64g@J&CcYcO{i+_cOg>QzKe1MFEgNb~8d4Yj{e"
    "S~_AY>|kEeSd<3dXIc~dUSw+fPsX8fqZIhgpihmfs1Q?h;Mp}d3J+^gnoQ$f{K5SfP#aCi+y05e1wgGb%Kb6etLj^fQ^QGdx"
    "C_6gnD&?eS3R{gnN2-d5xBZf^w6DeUNvFfrWK<f_`6phk|){gMfvEesG6?dWUX!goto~h<k;Am6C&if_j8_f_Z+8g=lzvftH"
    "1Ee0_R=iHLrRjC*!~fP#5_f_s97hkJs2fQ5gBcv*COh>eAUijsbbgn@&7dWwLLa(Ik^e}Hv?i+p^8j(&Y|eu#m8c!!96gob>"
    "CdyaB{frNvCiHU)Re}#L4e~WO5c#?&JeTIpGfR%`Yf_Qs;iGy{8frWvOfO~|6e1Um?eSCp~c6xt-cXEA(fqadGgoSo{e~W*2"
    "a({(>ZG3=;goKBBe2aR5e}H*`e}H{|g@A#dl#+peiiC8Tb$x+&fPQ#^e}IX8dwq<4hkb>Ed2M@!e2j^TgNTKTd3uF^ae#t=d"
    "w`pWgMf;IgMNjGc6N|*bdGt6b$NP&fQWl^k8+KDfQf>3eT#;Vf`5W_e1Lg}g?NK~aE5}5fP{L1c8q9=dwPR|fqjUAeSV3Ie0"
    "Pg>eS?L6kAjPYg^GQ9et>m+fq-p*fRlcLe}I90f_{X1m3nrGcz=p^e|Ue8dV+z0e};I1e}{&Ah>3=bc5j7+e}H#`c7}X^Lzs"
    "qxa&dxyc!rOAf_im+eu;c}eSM3EhkciZgMEW{gOGuGdV6<ye13(5et~+0fQEpBfq-&-gm-;`fPQp=dw_>^fQ*QEeUo~IfsKr"
    "bczb?(bBcX}hj@m1dwGP0n1O$mVT*@@hJ%2Ed5DUJgnfv5dWD9IgNSx?h=PiFihF>Cd2Wn*fP;mJig<;6gM5H>c$$HPih+lX"
    "jeC!Jet~j`gM4jkf_i~?goBKUf{A;JhlzoQl6s7Ad3A(?lZtY3f`NR2euRE;c!G+AgNlfYfPII8kB^0kcY%z6eQ<+|goTBTe"
    "14CEgn596hkSr_e|>&@go=7|e2ss1f_#09hk}EFeSL>{cz1?=hk$r{M2U!eb6I|Rf`y2PiGhZFaA|>meTR93Xn}u&jfsDQcz"
    "%X|ZGm-ebb)?=gnEOMcXxD$f`f*OfQWT|cXfk+eTImIj);VYfqRO0e|mp>je(SVeT9jEhj)N?a(-=deT9FAhkS&Cf`@{GeS?"
    "C7dWD3Sd4Y?7fpdkBet?6CqJedRe1ms<"
)


@cache
def gram_weights() -> tuple[int, ...]:
    """The weights of the buckets, in units of GRAM_STEP."""
    return tuple(byte - 128 for byte in b85decode(_GRAMS))
