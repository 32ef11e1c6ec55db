package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

final class ShippingTest {

  @Test
  void aParcelThatTheCarrierDoesNotTakeComesAgain() throws Exception {
    try (PocketMq mq = new PocketMq()) {
      String delay = "{\"settings\": {\"attributes\": {\"message.type\": \"DELAY\"}}}";
      mq.ask("PUT", "/topics/" + Shipping.PARCELS, delay);
      mq.ask("PUT", "/groups/" + Shipping.GROUP, "");
      try (Shipping shipping = new Shipping(mq.endpoints())) {
        shipping.packed("book", System.currentTimeMillis());
        mq.advance("minutes", 60);
        assertEquals(List.of("book attempt 1"), shipping.ship(parcel -> false));
        mq.advance("seconds", 10);
        assertEquals(List.of("book attempt 2"), shipping.ship(parcel -> true));
      }
      var drained = mq.ask("POST", "/groups/" + Shipping.GROUP + "/drain", "");
      assertEquals(0, drained.get("left").getAsInt());
    }
  }
}
