import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.expression.BooleanExpression;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.filter.parser.SelectorParser;

/** Reads {"maps": [...], "texts": [...]} and writes RocketMQ's answers, one string per text. */
public class FilterAnswers {
    public static void main(String[] arguments) throws Exception {
        JSONObject input = JSON.parseObject(new String(System.in.readAllBytes(), StandardCharsets.UTF_8));
        JSONArray maps = input.getJSONArray("maps");
        JSONArray answers = new JSONArray();
        for (Object text : input.getJSONArray("texts")) {
            answers.add(answer((String) text, maps));
        }
        System.out.write(JSON.toJSONBytes(answers));
        System.out.flush();
    }

    private static String answer(String text, JSONArray maps) {
        BooleanExpression expression;
        try {
            expression = SelectorParser.parse(text);
        } catch (MQFilterException refused) {
            return "!";
        }
        StringBuilder letters = new StringBuilder();
        for (int i = 0; i < maps.size(); i++) {
            letters.append(letter(expression, properties(maps.getJSONObject(i))));
        }
        return letters.toString();
    }

    private static Map<String, String> properties(JSONObject map) {
        Map<String, String> properties = new HashMap<>();
        map.forEach((name, value) -> properties.put(name, (String) value));
        return properties;
    }

    private static char letter(BooleanExpression expression, Map<String, String> properties) {
        try {
            Object value = expression.evaluate(new MessageEvaluationContext(properties));
            return value == null ? 'N' : Boolean.TRUE.equals(value) ? 'T' : 'F';
        } catch (Exception failed) {
            return 'E';
        }
    }
}
