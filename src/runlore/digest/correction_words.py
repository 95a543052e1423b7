"""The words with which people reject or redirect what an agent did, by language.

`OPENINGS` count at the beginning of a message, `PHRASES` anywhere in its first sentences. Both are
patterns for lower-case text with straight quotes. A word that also begins a next task or a question
is left out: a missed correction costs less than a wrong one.
"""

from __future__ import annotations

ENGLISH_OPENINGS = (
    r"(?:stop\b(?! (?:the (?:server|app|process|container|service|run)|here|for|after|when|once)\b)"
    r"|undo\b|revert\b|roll ?back\b|(?:go|(?:bring|put|change) (?:it|that|them|the \w+)) back\b)",
    r"(?:don'?t|do not|please don'?t|never|you (?:should|must)(?:n'?t| not))"
    r" (?!worry|forget|mind|.{0,40}\byet\b)",
    r"(?:that|this|it|these|those)(?:'?s| is| was| are| were| still| does| did| do| looks?)?"
    r" ?(?:not|n'?t|wrong|incorrect|broken|bad|worse|still)\b"
    r"(?! (?:clear|sure|urgent|(?:a )?bad)\b)",
    r"(?:that|this|it)(?:'?s| is) (?:too? much\b|too |the wrong |wrong|annoying"
    r"|an? (?:old|outdated|wrong|ancient) )",
    r"(?:doesn'?t|does not|didn'?t|did not|isn'?t|not) (?:work|fix|right|correct|what|the same)",
    r"still (?:doesn'?t|does not|not|isn'?t|fail|broken|wrong|the same|see|get|no\b|there|have)",
    r"(?:wrong|incorrect)\b",
    r"why (?:did|didn'?t|are|aren'?t|have|haven'?t|were|don'?t) you\b",
    r"why do you (?:keep|still|always|insist|ignore)\b",
    r"why (?:is|are|does) (?:it|this|that|there) (?:still|not|only|\d)",
    r"you (?:broke|forgot|missed|didn'?t|did not|ignored|removed|deleted|misunderstood|skipped"
    r"|were supposed|should have|shouldn'?t|are wrong|keep |still |left out|changed the)",
    r"i (?:said|meant|asked (?:you|for)|told you|wanted you)\b",
    r"i mean\b(?!ing)",
    r"i actually (?:wanted|meant|asked)\b",
    r"i (?:didn'?t|did not) (?:ask|want|mean|say|find)\b",
    r"i still (?:see|get|have|don'?t|can'?t)\b",
    r"i(?:'m| am|m| was) talking about\b",
    r"actually,? (?:no\b|not\b|don'?t\b|make\b|use\b|let'?s\b|i (?:want|meant|need|prefer|don'?t)"
    r"|we (?:should|don'?t|want)|revert|undo|change (?:it|that)|keep\b)",
    r"(?:instead|rather)[, ]+(?:of (?:that|this|what)|use\b|let'?s\b|i (?:want|meant)|do\b|just\b)",
    r"but (?:(?:could|can) we not|i (?:thought|said|asked|meant)|again[:,]"
    r"|you (?:said|didn'?t|did not|still|forgot)|it (?:still|doesn'?t|isn'?t)"
    r"|that'?s (?:not|wrong)|[^?!]{1,60}(?:\bnot\b|n't\b))",
    r"(?:oh no|fgs|wtf|wth|argh|nooo*)\b",
    r"are you sure\b[^?]{0,200}\?\s*(?!(?:please|can you|could you|just)\b)\S+(?:\s+\S+){3}",
    r"the (?:(?:real|actual) (?:issue|problem) is\b|(?:issue|problem) is [^.]{2,80}\bnot\b)",
    r"let'?s (?:not|instead)\b",
    r"no need (?:to|for)\b",
    r"something (?:broke|is (?:broken|off|wrong))",
    r"(?:again[,:]|as i said|like i said)",
    r"not (?:like that|what i|that one|good enough|quite|exactly)\b",
    r"(?:please )?(?:keep|leave|restore|put back) the (?:old|original|previous|existing)\b",
)
OPINIONS = (
    r"(?:wait|hold on|hang on)\b(?! (?:for|until|till|a (?:bit|moment|minute))\b)"
    r"(?!,? (?:what|how|where|which|who|when|why|can|could)\b)",
    r"i actually (?:want|need|prefer|don'?t)\b",
    r"i (?:don'?t|do not) (?:want|like|see (?:the|any|it|them|that|this))\b",
    r"i (?:don'?t|do not) think (?:we need|that'?s|this|it|the)\b",
    r"(?:shouldn'?t|isn'?t|didn'?t) (?:it|this|that|we|you|i|the)\b",
    r"we (?:don'?t|do not) (?:need|want|use)\b",
    r"[^.?!]{0,60}\bi thoug\w+\b(?! (?:about|of|it (?:would|might|could))\b)",
)
"""Beginnings that reject something if the agent has changed files. Where it has only talked, they
belong to the talk."""
STRONG_PHRASES = (
    r"not what i (?:asked|meant|want|said)",
    r"\bdon'?t do (?:that|this|it)\b",
    r"\bi meant\b(?! to\b)",
    r"\byou (?:broke|forgot|misunderstood)\b",
    r"\bstill (?:fails?|failing|broken|wrong|not work|does ?n'?t work|is ?n'?t work|the same)\b",
    r"\bjust do it\b",
    r"\b(?:undo|revert|roll back) (?:that|this|it|your|all)\b",
)
"""Phrases that reject something in a question, too."""
ENGLISH_PHRASES = (
    r"(?:does ?n[o']?t|does not|is ?n[o']?t|is not|did ?n[o']?t|did not) (?:seem to )?work\b",
    r"(?:not|n't) working\b",
    r"\bstill (?:fails?|failing|broken|wrong|not work|does ?n'?t|is ?n'?t|the same|happening"
    r"|getting)\b",
    r"\byou didn'?t (?:do|use|add|push|change|fix|update)\b",
    r"\byou (?:marked|changed|removed|deleted|added|used|put) .{2,80}\bbut\b",
    r"\bthat'?s (?:wrong|incorrect|not (?:right|correct|what))\b",
    r"\b(?:is|are|was) (?:(?:also|just|still|completely|totally|quite) )?"
    r"(?:not (?:good enough|right|correct|true|needed|necessary)|unnecessary|redundant|superfluous"
    r"|wrong|incorrect|overkill)\b"
    r"|\bover-?engineered\b",
    r"\byou(?:'re| are) (?:wrong|missing|not|still|confus\w+|assuming|overcomplicat\w+)\b",
    r"\b(?:should be|want|it'?s)\b[^.?!]{1,60}, not\b",
    r"\bbut (?:i never|it (?:never|just|only|exits?|exited|crashe[sd]|failed|fails)|nothing)\b",
    r"\b(?:makes? no|n'?t make(?: any)?|not make(?: any)?) sense\b",
    r"\b(?:got|go|get|did) (?:this|that|it) wrong\b",
    r"\bdon'?t like (?:it|this|that|how)\b",
    r"\b(?:is|are) (?:still )?broken\b",
    r"\b(?:the )?same (?:error|issue|problem|bug)\b(?! (?:in|for|with)\b)",
    r"\bnot (?:showing|appearing|loading|rendering|visible|updating)\b",
    r"\bnothing (?:changed|changes|happens|happened)\b",
    r"\bnow (?:it|i|the \w+) (?:says?|fails?|gets?|is broken)\b",
    r"\b(?:concerns|worries|bothers) me\b",
    r"\b(?:something|it|that|this|you) broke\b",
    r"\bwe (?:lost|are missing|no longer have)\b",
    r"\b(?:looks?|shows?|feels?|seems?)(?: like)? (?:a )?(?:worse|wrong|broken|off|weird"
    r"|terrible|bad|ugly|outdated)\b",
    r"\bhas nothing to do with\b",
    r"\b(?:use|make|do|try|go with|put|call|parse|keep|create|write|show|return|build)\b.{1,60}"
    r"\binstead\b"
    r"(?=\s*(?:[.!?,]|$|of\b))",
    r"\buse [\w./@-]*\w,? (?:and )?not \S+",
    r"\bshould (?:have been|not have|n'?t have)\b",
    r"\bworked (?:fine|well|before|earlier|until)\b|\bused to work\b",
    r"\bplease keep (?:that|the (?:old|same|original|previous))\b",
)

REDIRECTS = (
    r"(?:please |just |let'?s )*(?:use|keep|skip|try|focus|stick|stay|go with|forget|ignore|leave)"
    r"\b",
    r".*\b(?:instead|rather|(?:in|to|into|with|use|from|the) (?:an)?other|different(?:ly)?|already"
    r"|actually|only (?:the|use|want|need|a|for|on|in)|even need|cleaner|simpler|wrong|no need"
    r"|too (?:much|many|long|slow|big|complicated)|should(?:n'?t)?"
    r"|(?:don'?t|do not|didn'?t|doesn'?t|isn'?t|aren'?t|not) \w+"
    r"|needs? to (?:use|be|find|keep))\b",
    r".*(?:而是|改用|应该|應該|不用|换成|先不|代わりに|ではなく|대신|말고)",
    r".*\b(?:stattdessen|lieber|nicht|plutôt|au lieu|en vez|en lugar|mejor|em vez|invece|liever"
    r"|вместо|лучше)\b",
)
"""What redirects an agent that was stopped, from the beginning of a message."""

OPENINGS = {
    "de": (
        r"(?:falsch|stopp|halt)\b",
        r"(?:das|dies|es) (?:ist|war|geht|funktioniert|stimmt|klappt|passt|soll(?:te)?)"
        r"(?: so| (?:immer )?noch| immer)? (?:nicht|falsch|kaputt)\b",
        r"(?:so|bitte|noch|immer noch) nicht\b",
        r"(?:geht|funktioniert|klappt|stimmt) (?:immer )?(?:noch )?nicht\b",
        r"immer noch\b",
        r"(?:warum|wieso) (?:hast|machst|änderst|löschst) du\b",
        r"du (?:hast .{0,40}(?:vergessen|gelöscht|übersehen)|solltest)\b",
        r"ich (?:meinte|wollte|sagte|hatte gesagt|will (?:nicht|kein)|möchte (?:nicht|kein))",
        r"(?:mach|nimm) (?:das|es) (?:rückgängig|wieder)",
        r"(?:stattdessen|sondern)\b",
    ),
    "fr": (
        r"(?:faux|arrête[rsz]?)(?:[ ,.!]|$)",
        r"(?:ce n'est pas|c'est (?:faux|pas|incorrect|toujours)|pas comme ça)\b",
        r"(?:ça|cela|il) ne (?:marche|fonctionne|va) (?:toujours )?pas\b",
        r"(?:toujours pas|encore (?:une erreur|cassé|le même))",
        r"pourquoi (?:tu as|as-tu|avez-vous|t'as|vous avez)\b",
        r"(?:tu as|vous avez) (?:oublié|cassé|supprimé|mal)\b",
        r"(?:annule|reviens en arrière|remets)\b",
        r"(?:je voulais|j'ai dit|je ne veux pas|je n'ai pas demandé)\b",
        r"ne .{1,30} pas\b",
    ),
    "es": (
        r"no(?:[,.!]|,? (?:es|era|así|quiero|uses|hagas|cambies|toques|funciona|me)\b)",
        r"(?:eso|esto|así) no\b|(?:está|esta) (?:mal|roto)\b|incorrecto\b",
        r"(?:sigue (?:sin|fallando|igual|dando)|todavía no|aún no)\b",
        r"por ?qu[eé] (?:has|hiciste|cambiaste|borraste|no)\b",
        r"(?:te )?(?:olvidaste|has olvidado|rompiste)\b",
        r"(?:deshaz|revierte|vuelve atrás)\b",
        r"(?:quería|quise decir|me refería|te dije|dije que)\b",
    ),
    "pt": (
        r"n[ãa]o(?:[,.!]|,? (?:é|era|quero|use|faça|mude|funciona|foi)\b)",
        r"(?:isso|isto|assim) não\b|(?:está|ta|tá) (?:errado|quebrado)\b|errado\b",
        r"(?:ainda não|continua (?:sem|com|dando|falhando|errado))\b",
        r"por ?qu[eê] (?:você|vc|mudou|apagou)\b",
        r"(?:você|vc) (?:esqueceu|quebrou|apagou|não)\b",
        r"(?:desfaça|reverta|volta atrás)\b",
        r"(?:eu queria|eu quis dizer|eu disse)\b",
    ),
    "it": (
        r"no(?:[,.!]|,? (?:non|così)\b)",
        r"non (?:è|era|funziona|voglio|usare|fare|va bene|toccare)\b",
        r"(?:sbagliato|è sbagliato|ancora non|continua a)\b",
        r"perch[eé] (?:hai|non hai)\b",
        r"(?:hai (?:dimenticato|rotto|cancellato)|annulla|ripristina)\b",
        r"(?:volevo|intendevo|ho detto|avevo chiesto)\b",
    ),
    "nl": (
        r"(?:fout|verkeerd)\b",
        r"(?:dat|dit|het) (?:is|was|werkt|klopt|gaat)(?: nog)?(?: steeds)? (?:niet|fout)\b",
        r"(?:werkt|klopt) (?:nog steeds |nog )?niet\b",
        r"(?:nog steeds|niet zo)\b",
        r"waarom (?:heb|doe|verander) je\b",
        r"je (?:bent .{0,30}vergeten|hebt .{0,30}(?:vergeten|verwijderd))\b",
        r"ik (?:bedoelde|wilde|zei|wil (?:niet|geen))\b",
        r"(?:maak .{0,30}ongedaan|draai .{0,30}terug)\b",
    ),
    "ru": (
        r"(?:не то|не так|неверно|неправильно|стоп|стой|отмени|откати|верни)(?:[ ,.!]|$)",
        r"(?:это|оно|так) не\b",
        r"(?:не работает|не надо|не нужно|не трогай|не меняй)",
        r"(?:вс[её] (?:ещ[её]|равно)|опять|по-прежнему|до сих пор)\b",
        r"(?:зачем|почему) ты\b",
        r"ты (?:забыл|сломал|удалил|пропустил|не)\b",
        r"я (?:имел в виду|просил|хотел|сказал|не просил)",
    ),
    "zh": (
        r"(?:不对|不是|错了|不要|别|不行|停|等等|不属于|不应该)",
        r"(?:还是|仍然|依然|依旧)(?:不|没|报错|有|一样|失败|错)",
        r"(?:没有?(?:生效|用|解决|修好|变化|效果))",
        r"(?:为什么|为啥)(?:你|把|又|还|没|删|改)|怎么(?:又|还|没)",
        r"你(?:忘|漏|没|删|改错|搞错|弄错|理解错|少)",
        r"(?:回退|撤销|撤回|恢复|还原|改回)",
        r"我(?:说的|要的|的意思|想要的|指的)是",
        r"(?:應該|应该)(?:是|用|改)",
    ),
    "ja": (
        r"(?:違う|違います|ちがう|だめ|ダメ|いや|やめて|待って|ストップ)",
        r"(?:そう|それ|これ)(?:じゃ|では)な",
        r"(?:まだ|やはり|やっぱり)(?:動|エラー|直|でき|治|同じ)",
        r"(?:動か|動き|直って|できてい|反映され)(?:な|ませ)",
        r"(?:なぜ|なんで|どうして)(?:勝手|消|変え|削除)",
        r"(?:戻して|元に戻|取り消)",
    ),
    "ko": (
        r"(?:아니야|아니라|틀렸|틀려|잘못|그만|멈춰|잠깐)",
        r"(?:그게|이게) 아니",
        r"(?:아직도|여전히|또)(?: |$)",
        r"(?:안 ?돼|안 ?됩|안 ?되|작동하지 않|작동 안)",
        r"왜 (?:그|이|바꿨|지웠|삭제|안)",
        r"(?:되돌려|원래대로|취소)",
    ),
    "vi": (
        r"(?:không phải|sai rồi|sai|đừng|dừng lại)\b",
        r"(?:vẫn|vẫn còn) (?:không|lỗi|chưa|bị)",
        r"(?:sao|tại sao) (?:lại|bạn|m)\b",
        r"(?:đọc|xem|kiểm tra) k[ĩỹ] lại\b",
    ),
}
"""By language, besides English."""

PHRASES = (
    r"\bfunktioniert (?:immer )?(?:noch )?nicht\b|\bgeht (?:immer )?(?:noch )?nicht\b",
    r"\bne (?:marche|fonctionne) (?:toujours )?pas\b",
    r"\b(?:sigue sin|no) funciona(?:r|ndo)?\b",
    r"\bnão (?:está )?funciona(?:ndo)?\b",
    r"\bnon funziona\b|\bwerkt (?:nog steeds )?niet\b|\bне работает\b",
    r"不太(?:好|对|行|合适)|(?:还是|仍然|依然)(?:不行|不对|报错|有问题|没有)|(?:先|请|帮我)?(?:回退|撤销|改回)",
    r"(?:ではなく|じゃなくて|しないで|動かない|動きません|戻して)",
    r"(?:말고|하지 ?마|안 ?됩니다|안 ?돼요|되돌려)",
)
"""Of languages besides English."""
